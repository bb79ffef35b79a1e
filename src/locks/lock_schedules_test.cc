// Random tasks that lock, wait, nest, branch, throw, are cancelled and pass guards on, in random order, under virtual
// time: coroutines, and callables that block. What must always be true of locks is checked from outside. A schedule is
// its seed: see tests/support/schedules.h.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/key_locks.h"
#include "keyway/testing/sim_scheduler.h"
#include "support/schedules.h"

namespace keyway {
namespace {

using std::chrono::microseconds;

// A task, or a branch of one: "3", "3.1", "3.1.0". A branch is a part of those whose name it begins with.
using Name = std::string;

bool is_part_of(const Name& part, const Name& whole) {
  return part == whole || part.starts_with(whole + ".");
}
Name task_of(const Name& name) { return name.substr(0, name.find('.')); }

class Schedule {
 public:
  // `lets_go`: a bug on purpose; each guard is released as soon as it is taken.
  Schedule(std::uint64_t seed, bool lets_go) : sim_(seed), seed_(seed), lets_go_(lets_go) {}

  // The first thing that was wrong; empty if nothing was.
  std::string run() {
    executor_ = std::make_unique<GroupExecutor>(
        GroupPolicy{.default_group = {.max_concurrency = 100}}, sim_);
    only_all_ = one_in(8);
    const std::uint64_t tasks = 2 + below(6);
    for (std::uint64_t i = 0; i < tasks; ++i) submit();
    for (std::uint64_t i = below(40); i > 0; --i) {
      if (one_in(12)) cancel_one();
      if (one_in(6)) release_passed_on();
      if (!sim_.run_one()) break;
    }
    sim_.run_until_idle();
    while (!passed_on_.empty()) {
      release_passed_on();
      sim_.run_until_idle();
    }
    for (TaskHandle<void>& handle : handles_) expect(handle.is_done(), "a task waits for ever");
    executor_.reset();
    expect(locks_.active_lock_count() == 0, "a lock was left behind");
    return wrong_.empty() ? "" : "seed " + std::to_string(seed_) + ": " + wrong_;
  }

 private:
  static constexpr std::array<const char*, 3> kKeys{"a", "b", "c"};

  static constexpr const char* kNobody = "nobody";

  struct PassedOn {
    std::string key;
    LockMode mode;
    KeyLocks::Guard guard;
  };
  // Of one key, as seen from outside.
  struct Ask {
    Name who;
    LockMode mode;
    bool again = false;  // holds it already, or is a part of one that does
  };
  struct Key {
    std::vector<Ask> holds;
    std::vector<Ask> line;  // who asked and has neither got it nor given up; first in first
  };

  std::uint64_t below(std::uint64_t bound) { return sim_.random_below(bound); }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  void expect(bool holds, const std::string& what) {
    if (!holds && wrong_.empty()) wrong_ = what;
  }
  void say(const std::string& what) const {
    if (says_all_) std::cerr << what << '\n';
  }

  void submit() {
    const Name name = std::to_string(handles_.size());
    const std::string group = "group " + name;
    if (only_all_) {
      handles_.push_back(
          executor_->submit(group, name, [this, name] { return works_with_all(name); }));
    } else if (one_in(3)) {
      handles_.push_back(executor_->submit(group, name, [this, name] { blocks(name); }));
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

  // Some of the keys.
  std::vector<std::string> some_keys() {
    std::vector<std::string> keys;
    for (const char* key : kKeys) {
      if (one_in(2)) keys.emplace_back(key);
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
    for (std::uint64_t steps = 1 + below(5); steps > 0; --steps) {
      const std::string key = kKeys[below(kKeys.size())];
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
  void blocks(const Name& me) {
    HeldKeys held;
    for (std::uint64_t steps = 1 + below(4); steps > 0; --steps) {
      const std::string key = kKeys[below(kKeys.size())];
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
          lock_blocking(me, key, mode, held);
      }
    }
  }

  void lock_blocking(const Name& me, const std::string& key, LockMode mode, HeldKeys& held) {
    say(me + " blocks for " + key + ' ' + to_string(mode));
    keys_[key].line.push_back({me, mode, holds(me, key)});
    try {
      KeyLocks::Guard guard = locks_.lock(key, mode);
      check_turn(me, key, mode);
      leave_line(me, key);
      took(me, key, mode, guard, held);
    } catch (const Exception& error) {
      expect(error.code() == ErrorCode::kWaitCycle && reaches(task_of(me)),
             "not a cycle: " + std::string(error.what()));
      leave_line(me, key);
    }
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

  void release_passed_on() {
    if (passed_on_.empty()) return;
    PassedOn one = std::move(passed_on_.front());
    passed_on_.pop_front();
    say("passed on " + one.key + " is given back");
    expect(locks_.explain(one.key).holders.size() > 0, "a guard that was passed on holds nothing");
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

  // ---- what is seen from outside

  bool holds(const Name& me, const std::string& key) {
    const auto& all = keys_[key].holds;
    return std::any_of(all.begin(), all.end(),
                       [&](const Ask& hold) { return is_part_of(me, hold.who); });
  }
  // Whoever asked before has had it, has given up, or shares it.
  void check_turn(const Name& me, const std::string& key, LockMode mode) {
    for (const Ask& ask : keys_[key].line) {
      if (ask.who == me) {
        if (ask.again) return;
        break;
      }
    }
    for (const Ask& ask : keys_[key].line) {
      if (ask.who == me) return;
      if (all_at_once_.contains(ask.who)) continue;  // it may not have asked yet
      const bool both_share = mode == LockMode::kShared && ask.mode == LockMode::kShared;
      expect(both_share || cancelled_.contains(task_of(ask.who)),
             me + " has " + key + " before " + ask.who);
    }
  }
  void leave_line(const Name& me, const std::string& key) {
    std::erase_if(keys_[key].line, [&](const Ask& ask) { return ask.who == me; });
  }
  void took(const Name& me, const std::string& key, LockMode mode, KeyLocks::Guard& guard,
            HeldKeys& held) {
    say(me + " has " + key + ' ' + to_string(mode));
    begin_hold(me, key, mode);
    if (lets_go_) guard.release();
    held.push_back(std::make_unique<Held>(*this, me, key, mode, std::move(guard)));
  }
  void begin_hold(const Name& me, const std::string& key, LockMode mode) {
    Key& state = keys_[key];
    for (const Ask& other : state.holds) {
      const bool both_share = mode == LockMode::kShared && other.mode == LockMode::kShared;
      expect(both_share || is_part_of(me, other.who),
             me + " and " + other.who + " both have " + key);
    }
    state.holds.push_back({me, mode});
  }
  void disowned(const Name& me, const std::string& key, LockMode mode) {
    for (Ask& hold : keys_[key].holds) {
      if (hold.who != me || hold.mode != mode) continue;
      hold.who = kNobody;
      return;
    }
  }
  void gives_back(const Name& me, const std::string& key, LockMode mode) {
    say(me + " gives back " + key);
    auto& all = keys_[key].holds;
    all.erase(std::find_if(all.begin(), all.end(),
                           [&](const Ask& hold) { return hold.who == me && hold.mode == mode; }));
  }

  // Whether a task waits for itself, by way of others; seen task by task, whatever branch it is.
  bool reaches(const Name& task) {
    std::set<Name> seen;
    std::vector<Name> next{task};
    while (!next.empty()) {
      const Name from = next.back();
      next.pop_back();
      const auto add = [&](const Name& to) {
        if (seen.insert(to).second) next.push_back(to);
      };
      for (const auto& [who, other] : waits_) {
        if (task_of(who) == from) add(other);
      }
      for (const auto& [key, state] : keys_) {
        for (const Ask& ask : state.line) {
          if (task_of(ask.who) != from) continue;
          for (const Ask& hold : state.holds) {
            if (!is_part_of(ask.who, hold.who)) add(task_of(hold.who));
          }
          for (const Ask& other : state.line) {
            // It may have this key already, and wait for the next one.
            if (other.who != ask.who && all_at_once_.contains(other.who)) add(task_of(other.who));
          }
        }
      }
    }
    return seen.contains(task);
  }

  testing::SimScheduler sim_;
  const std::uint64_t seed_;
  const bool lets_go_;
  const bool says_all_ = replays_a_seed();
  std::string wrong_;
  KeyLocks locks_;
  std::map<std::string, Key> keys_;
  std::map<Name, std::string> waits_;  // for a task
  std::set<std::size_t> awaited_;
  std::set<Name> cancelled_;
  std::set<Name> all_at_once_;  // whose lock_all() has not returned
  std::deque<PassedOn> passed_on_;
  bool only_all_ = false;
  std::deque<TaskHandle<void>> handles_;
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
