// Random tasks that lock, wait, nest, branch, throw, are cancelled and pass guards on, in random order, under virtual
// time: coroutines, callables that block, and coroutines of another library, which may be destroyed in line. What must always
// be true of locks is checked from outside. A schedule is its seed: see tests/support/schedules.h.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/key_locks.h"
#include "keyway/testing/sim_scheduler.h"
#include "locks/lock_oracle.h"
#include "support/foreign_coroutine.h"
#include "support/schedules.h"

namespace keyway {
namespace {

using std::chrono::microseconds;

class Schedule : private LockOracle {
 public:
  // `lets_go`: a bug on purpose; each guard is released as soon as it is taken.
  Schedule(std::uint64_t seed, bool lets_go) : sim_(seed), seed_(seed), lets_go_(lets_go) {}

  // The first thing that was wrong; empty if nothing was.
  std::string run() {
    executor_ = std::make_unique<GroupExecutor>(
        GroupPolicy{.default_group = {.max_concurrency = 100}}, sim_);
    only_all_ = one_in(8);
    has_many_keys_ = one_in(3);
    const std::uint64_t tasks = 2 + below(6);
    for (std::uint64_t i = 0; i < tasks; ++i) submit();
    for (std::uint64_t i = below(40); i > 0; --i) {
      if (one_in(12)) drive(&Schedule::cancel_one);
      if (one_in(6)) drive(&Schedule::release_passed_on);
      if (one_in(20)) drive(&Schedule::begin_foreign);
      if (one_in(12)) drive(&Schedule::destroy_foreign);
      if (!sim_.run_one()) break;
    }
    sim_.run_until_idle();
    while (!passed_on_.empty()) {
      drive(&Schedule::release_passed_on);
      sim_.run_until_idle();
    }
    for (TaskHandle<void>& handle : handles_) expect(handle.is_done(), "a task waits for ever");
    executor_.reset();
    for (const auto& foreign : foreign_) expect(!foreign->stands_in_line, "it waits for ever");
    expect(locks_.active_lock_count() == 0, "a lock was left behind");
    return wrong().empty() ? "" : "seed " + std::to_string(seed_) + ": " + wrong();
  }

 private:
  // Of more than four locks, an operation does not know which ones it holds.
  static constexpr std::array<const char*, 7> kKeys{"a", "b", "c", "d", "e", "f", "g"};
  static constexpr std::size_t kFewKeys = 3;

  struct PassedOn {
    std::string key;
    LockMode mode;
    KeyLocks::Guard guard;
  };
  std::uint64_t below(std::uint64_t bound) { return sim_.random_below(bound); }
  bool one_in(std::uint64_t n) { return below(n) == 0; }

  // In the simulation: a lock that is released elsewhere makes a foreign coroutine go on on a real thread.
  void drive(void (Schedule::*step)()) {
    expect(executor_->post("driver", [this, step] { (this->*step)(); }).ok(), "a post was refused");
  }

  void submit() {
    const Name name = std::to_string(handles_.size());
    const std::string group = "group " + name;
    if (only_all_) {
      handles_.push_back(
          executor_->submit(group, name, [this, name] { return works_with_all(name); }));
    } else if (one_in(3)) {
      handles_.push_back(executor_->submit(
          group, name, [this, name](std::stop_token stop) { blocks(name, stop); }));
    } else {
      handles_.push_back(executor_->submit(group, name, [this, name] { return work(name, 0); }));
    }
  }
  void cancel_one() {
    TaskHandle<void>& handle = handles_[below(handles_.size())];
    say("cancel " + std::string(handle.task_id()));
    cancelled_.insert(std::string(handle.task_id()));
    handle.cancel();
  }
  static LockMode mode_of(std::uint64_t number) {
    return number == 0 ? LockMode::kShared : LockMode::kExclusive;
  }

  std::size_t key_count() const { return has_many_keys_ ? kKeys.size() : kFewKeys; }
  std::string any_key() { return kKeys[below(key_count())]; }
  // Some of the keys.
  std::vector<std::string> some_keys() {
    std::vector<std::string> keys;
    for (std::size_t i = 0; i < key_count(); ++i) {
      if (one_in(2)) keys.emplace_back(kKeys[i]);
    }
    return keys;
  }

  // A guard, and what the model must hear when it goes, however that comes about.
  class Held {
   public:
    Held(Schedule& schedule, Name who, std::string key, LockMode mode, KeyLocks::Guard guard)
        : schedule_(schedule),
          who_(std::move(who)),
          key_(std::move(key)),
          mode_(mode),
          guard_(std::move(guard)) {}
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    ~Held() {
      if (passed_on_) return;
      schedule_.gives_back(who_, key_, mode_);
      guard_.release();
    }
    // From here on the guard belongs to nobody, and only release_passed_on() gives it back.
    void pass_on() {
      if (passed_on_ || schedule_.lets_go_) return;
      passed_on_ = true;
      schedule_.say(who_ + " passes on " + key_);
      schedule_.disowned(who_, key_, mode_);
      guard_.disown();
      expect_kept_out();
      schedule_.passed_on_.push_back({key_, mode_, std::move(guard_)});
    }
    // Not even the operation that took it gets in by it.
    void expect_kept_out() {
      if (mode_ == LockMode::kShared || schedule_.holds(who_, key_)) return;
      schedule_.expect(!schedule_.locks_.try_lock(key_), who_ + " enters by a guard it passed on");
    }

   private:
    Schedule& schedule_;
    const Name who_;
    const std::string key_;
    const LockMode mode_;
    KeyLocks::Guard guard_;
    bool passed_on_ = false;
  };

  using HeldKeys = std::vector<std::unique_ptr<Held>>;

  Task<void> work(Name me, int depth) {
    HeldKeys held;
    for (std::uint64_t steps = 1 + below(has_many_keys_ ? 12 : 5); steps > 0; --steps) {
      const std::string key = any_key();
      const LockMode mode = mode_of(below(3));
      switch (below(9)) {
        case 8:
          if (!held.empty()) held[below(held.size())]->pass_on();
          break;
        case 0:
        case 1:
          co_await lock(me, key, mode, held);
          break;
        case 2:
          if (KeyLocks::Guard guard = try_lock(me, key, mode)) took(me, key, mode, guard, held);
          break;
        case 3:
          if (!held.empty()) held.erase(held.begin() + static_cast<long>(below(held.size())));
          break;
        case 4:
          co_await lock_all(me, held);
          break;
        case 5:
          if (depth < 2) co_await when_all(work(me + ".0", depth + 1), work(me + ".1", depth + 1));
          break;
        case 6:
          co_await wait_for_another(me);
          break;
        default:
          if (one_in(6)) throw std::runtime_error("on purpose");
          co_await sleep_for(microseconds(below(20)));
      }
    }
  }

  // Perhaps in a part of the operation, which has the lock when the part has ended.
  Task<void> lock(const Name& me, std::string key, LockMode mode, HeldKeys& held) {
    say(me + " wants " + key + ' ' + to_string(mode));
    keys_[key].line.push_back({me, mode, holds(me, key)});
    switch (below(6)) {
      case 0:
        co_await when_all(take(me, key, mode, held));
        break;
      case 1:
        co_await when_all(take(me, key, mode, held), nap());
        break;
      default:
        co_await take(me, key, mode, held);
    }
  }

  Task<void> take(Name me, std::string key, LockMode mode, HeldKeys& held) {
    try {
      KeyLocks::Guard guard = co_await locks_.lock_async(key, mode);
      check_turn(me, key, mode);
      leave_line(me, key);
      took(me, key, mode, guard, held);
    } catch (const Exception& error) {
      say(me + " does not get " + key + ": " + error.what());
      if (error.code() == ErrorCode::kWaitCycle) {
        expect(reaches(task_of(me)), "not a cycle: " + std::string(error.what()));
      }
      leave_line(me, key);
      if (error.code() == ErrorCode::kCancelled) throw;
    }
  }
  Task<void> nap() { co_await sleep_for(microseconds(below(20))); }

  KeyLocks::Guard try_lock(const Name& me, const std::string& key, LockMode mode) {
    keys_[key].line.push_back({me, mode, holds(me, key)});
    KeyLocks::Guard guard = locks_.try_lock(key, mode);
    if (guard) check_turn(me, key, mode);
    leave_line(me, key);
    return guard;
  }

  // As lock_all_async() does, but one after the other: so that each is seen.
  Task<void> lock_all(const Name& me, HeldKeys& held) {
    if (!held.empty()) co_return;
    for (const std::string& key : some_keys()) {
      co_await lock(me, key, LockMode::kExclusive, held);
    }
  }

  // Takes locks by lock_all() alone. Where all tasks do, none is ever refused.
  Task<void> works_with_all(Name me) {
    for (std::uint64_t steps = 1 + below(3); steps > 0; --steps) {
      std::vector<std::string> keys = some_keys();
      if (one_in(2)) std::reverse(keys.begin(), keys.end());
      try {
        LockSet set;
        if (one_in(2)) {
          set = locks_.lock_all(keys);
        } else {
          set = co_await locks_.lock_all_async(keys);
        }
        expect(set.size() == keys.size(), "lock_all() holds too few keys");
        for (const std::string& key : keys) begin_hold(me, key, LockMode::kExclusive);
        for (std::uint64_t naps = below(3); naps > 0; --naps) {
          try {
            co_await sleep_for(microseconds(below(20)));
          } catch (const CancelledError&) {
          }
        }
        for (const std::string& key : keys) gives_back(me, key, LockMode::kExclusive);
      } catch (const Exception& error) {
        expect(error.code() == ErrorCode::kCancelled && cancelled_.contains(me),
               "lock_all() was refused: " + std::string(error.what()));
      }
    }
  }

  // A plain callable, which blocks.
  void blocks(const Name& me, const std::stop_token& stop) {
    HeldKeys held;
    for (std::uint64_t steps = 1 + below(4); steps > 0; --steps) {
      const std::string key = any_key();
      const LockMode mode = mode_of(below(3));
      switch (below(5)) {
        case 0:
          try_lock_for(me, key, mode, held);
          break;
        case 1:
          if (!held.empty()) held.erase(held.begin() + static_cast<long>(below(held.size())));
          break;
        case 2:
          if (!held.empty()) held[below(held.size())]->pass_on();
          break;
        case 3:
          if (held.empty()) lock_all_at_once(me);
          break;
        default:
          lock_blocking(me, key, mode, one_in(2) ? stop : std::stop_token(), held);
      }
    }
  }

  void lock_blocking(const Name& me, const std::string& key, LockMode mode,
                     const std::stop_token& stop, HeldKeys& held) {
    say(me + " blocks for " + key + ' ' + to_string(mode));
    keys_[key].line.push_back({me, mode, holds(me, key)});
    try {
      KeyLocks::Guard guard =
          stop.stop_possible() ? locks_.lock(key, stop, mode) : locks_.lock(key, mode);
      check_turn(me, key, mode);
      leave_line(me, key);
      took(me, key, mode, guard, held);
    } catch (const Exception& error) {
      leave_line_of_refused(me, key, error);
    }
  }
  void leave_line_of_refused(const Name& me, const std::string& key, const Exception& error) {
    const bool stopped = error.code() == ErrorCode::kCancelled && cancelled_.contains(me);
    expect(stopped || (error.code() == ErrorCode::kWaitCycle && reaches(task_of(me))),
           "not a cycle: " + std::string(error.what()));
    leave_line(me, key);
  }

  // Holds it, or its time is over.
  void try_lock_for(const Name& me, const std::string& key, LockMode mode, HeldKeys& held) {
    const Duration timeout = microseconds(below(40));
    const TimePoint deadline = sim_.now() + timeout;
    say(me + " tries for a while " + key + ' ' + to_string(mode));
    keys_[key].line.push_back({me, mode, holds(me, key)});
    KeyLocks::Guard guard = locks_.try_lock_for(key, timeout, mode);
    if (guard) {
      check_turn(me, key, mode);
      expect(sim_.now() <= deadline, "got " + key + " after its time");
    } else {
      expect(sim_.now() >= deadline, "gave " + key + " up too soon");
    }
    leave_line(me, key);
    if (guard) took(me, key, mode, guard, held);
  }

  // lock_all() itself: it asks for one key after the other, so only its holds are seen.
  void lock_all_at_once(const Name& me) {
    const std::vector<std::string> keys = some_keys();
    if (keys.empty()) return;
    for (const std::string& key : keys) keys_[key].line.push_back({me, LockMode::kExclusive, true});
    all_at_once_.insert(me);
    try {
      const LockSet set = locks_.lock_all(keys);
      for (const std::string& key : keys) leave_line(me, key);
      for (const std::string& key : keys) begin_hold(me, key, LockMode::kExclusive);
      for (const std::string& key : keys) gives_back(me, key, LockMode::kExclusive);
    } catch (const Exception& error) {
      expect(error.code() == ErrorCode::kWaitCycle && reaches(task_of(me)),
             "not a cycle: " + std::string(error.what()));
      for (const std::string& key : keys) leave_line(me, key);
    }
    all_at_once_.erase(me);
  }

  // ---- coroutines of another library

  struct Foreign {
    Name name;
    std::string key;
    bool stands_in_line = true;
    std::unique_ptr<OwnedCoroutine> coroutine;
  };
  void begin_foreign() {
    foreign_.push_back(std::make_unique<Foreign>());
    Foreign& foreign = *foreign_.back();
    foreign.name = "foreign " + std::to_string(foreign_.size());
    foreign.key = any_key();
    const LockMode mode = mode_of(below(3));
    say(foreign.name + " wants " + foreign.key + ' ' + to_string(mode));
    keys_[foreign.key].line.push_back({foreign.name, mode});
    foreign.coroutine.reset(new OwnedCoroutine(take_foreign(foreign, mode)));
  }
  OwnedCoroutine take_foreign(Foreign& foreign, LockMode mode) {
    KeyLocks::Guard guard = co_await locks_.lock_async(foreign.key, mode);
    say(foreign.name + " has " + foreign.key);
    check_turn(foreign.name, foreign.key, mode);
    leave_line(foreign.name, foreign.key);
    foreign.stands_in_line = false;
    begin_hold(kNobody, foreign.key, mode);
    if (lets_go_) guard.release();
    passed_on_.push_back({foreign.key, mode, std::move(guard)});
  }
  // Only a coroutine that cannot have got its lock yet, because another operation holds it.
  void destroy_foreign() {
    if (foreign_.empty() || lets_go_) return;
    Foreign& foreign = *foreign_[below(foreign_.size())];
    const std::vector<Ask>& all = keys_[foreign.key].holds;
    const bool is_held = std::any_of(
        all.begin(), all.end(), [](const Ask& hold) { return hold.mode == LockMode::kExclusive; });
    if (!foreign.stands_in_line || !is_held) return;
    say(foreign.name + " is destroyed");
    foreign.stands_in_line = false;
    leave_line(foreign.name, foreign.key);
    foreign.coroutine.reset();
  }

  void release_passed_on() {
    if (passed_on_.empty()) return;
    PassedOn one = std::move(passed_on_.front());
    passed_on_.pop_front();
    say("passed on " + one.key + " is given back");
    expect(lets_go_ || locks_.explain(one.key).holders.size() > 0,
           "a guard that was passed on holds nothing");
    gives_back(kNobody, one.key, one.mode);
    one.guard.release();
  }

  Task<void> wait_for_another(const Name& me) {
    const std::size_t other = below(handles_.size());
    if (!awaited_.insert(other).second) co_return;  // a result is given out once
    say(me + " waits for task " + std::to_string(other));
    waits_[me] = std::to_string(other);
    try {
      (void)co_await handles_[other];
    } catch (const Exception& error) {
      if (error.code() == ErrorCode::kWaitCycle) {
        expect(reaches(task_of(me)), "not a cycle: " + std::string(error.what()));
        awaited_.erase(other);
      }
    }
    waits_.erase(me);
  }

  void took(const Name& me, const std::string& key, LockMode mode, KeyLocks::Guard& guard,
            HeldKeys& held) {
    say(me + " has " + key + ' ' + to_string(mode));
    begin_hold(me, key, mode);
    if (lets_go_) guard.release();
    held.push_back(std::make_unique<Held>(*this, me, key, mode, std::move(guard)));
  }

  testing::SimScheduler sim_;
  const std::uint64_t seed_;
  const bool lets_go_;
  KeyLocks locks_;
  std::set<std::size_t> awaited_;
  std::deque<PassedOn> passed_on_;
  bool only_all_ = false;
  bool has_many_keys_ = false;
  std::deque<TaskHandle<void>> handles_;
  std::vector<std::unique_ptr<Foreign>> foreign_;
  std::unique_ptr<GroupExecutor> executor_;
};

// Four parts, so that they run side by side.
class LockSchedules : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(LockSchedules, KeepWhatMustAlwaysBeTrue) {
  expect_schedules_hold<Schedule>(GetParam(), 10'000);
}
INSTANTIATE_TEST_SUITE_P(Part, LockSchedules, ::testing::Values(0, 1, 2, 3));

TEST(LockSchedulesWithAPlantedBug, FindALockThatDoesNotHold) {
  expect_planted_bug_is_found<Schedule>(" both have ");
}

}  // namespace
}  // namespace keyway
