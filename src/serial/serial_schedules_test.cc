// Random work for a dispatcher, in random order, under virtual time: whatever happens, what must always be true is
// true. A schedule is its seed:
// see tests/support/schedules.h.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "groups/lossy_scheduler.h"
#include "keyway/serial_dispatcher.h"
#include "keyway/testing/sim_scheduler.h"
#include "serial/sticky_simulation.h"
#include "support/schedules.h"

namespace keyway {
namespace {

using std::chrono::microseconds;

class Schedule {
 public:
  Schedule(std::uint64_t seed, bool loses_wakeups)
      : sim_(seed), scheduler_(sim_, loses_wakeups), seed_(seed), loses_(loses_wakeups) {}

  // The first thing that was wrong; empty if nothing was.
  std::string run() {
    make_dispatcher();
    const std::uint64_t operations = 5 + below(40);
    for (std::uint64_t i = 0; i < operations && wrong_.empty(); ++i) do_something();
    end();
    return wrong_.empty() ? "" : "seed " + std::to_string(seed_) + ": " + wrong_;
  }

 private:
  static constexpr std::size_t kKeys = 4;
  static constexpr int kBoom = 42;

  // What is known of one piece of work.
  struct Known {
    std::size_t key = 0;
    std::size_t lane = 0;  // of its key
    int number = 0;        // as they were submitted
    TimePoint expires = TimePoint::max();
    int begun = 0;
    int ended = 0;
    bool refused = false;  // its submit, or call, gave an error
  };

  // Work that is at it, as it sees itself: it has its lane, and counts unless it waits for another one.
  class Running {
   public:
    Running(Schedule& schedule, Known& work) : schedule_(schedule), work_(work) {
      schedule_.begin(work_);
      count(+1);
    }
    ~Running() {
      if (counts_) count(-1);
      schedule_.inside_[work_.lane] = nullptr;
      ++work_.ended;
    }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

    void waits(bool waits) {
      if (waits == counts_) count(waits ? -1 : +1);
    }

   private:
    void count(int change) {
      counts_ = change > 0;
      schedule_.running_ += change;
      schedule_.expect(schedule_.running_ <= schedule_.options_.workers, "more run than workers");
    }

    Schedule& schedule_;
    Known& work_;
    bool counts_ = false;
  };

  std::uint64_t below(std::uint64_t bound) { return sim_.random_below(bound); }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  void expect(bool holds, const std::string& what) {
    if (!holds && wrong_.empty()) wrong_ = what;
  }
  const std::string& name_of(std::size_t key) const { return names_[key]; }

  void make_dispatcher() {
    options_.workers = static_cast<int>(1 + below(3));
    if (one_in(2)) options_.queue_capacity = static_cast<int>(below(4));
    if (one_in(3)) options_.total_capacity = static_cast<int>(below(6));
    if (one_in(2)) options_.on_full = OnFull::kCallerRuns;
    if (!caller_runs() && options_.total_capacity == 0) options_.total_capacity = 1;
    if (!loses_ && one_in(3)) {
      options_.routing = Routing::kSticky;
      owned_dispatcher_ = StickySimulation::make(options_, sim_);
    } else {
      owned_dispatcher_ = std::make_unique<SerialDispatcher>(options_, scheduler_);
    }
    dispatcher_ = owned_dispatcher_.get();
    for (std::size_t key = 0; key < kKeys; ++key) draw_name(key);
  }
  // The hash that chooses a sticky worker differs from process to process. So the seed draws the worker, and this
  // function makes a name that leads to it: a seed replays.
  void draw_name(std::size_t key) {
    const std::string letter(1, static_cast<char>('a' + key));
    names_[key] = letter;
    if (!is_sticky()) return;
    const std::size_t wanted = below(static_cast<std::uint64_t>(options_.workers));
    for (int i = 0; lane_of(key) != wanted; ++i) names_[key] = letter + std::to_string(i);
  }
  bool is_sticky() const { return options_.routing == Routing::kSticky; }
  // A key's own lane, or its worker's.
  std::size_t lane_of(std::size_t key) const {
    if (!is_sticky()) return key;
    return static_cast<std::size_t>(dispatcher_->lane_of(name_of(key)).back() - '0');
  }
  bool caller_runs() const { return options_.on_full == OnFull::kCallerRuns; }
  // Work that blocks sleeps on a stack of its own. Where wake-ups are lost on purpose, a call could block for ever.
  bool may_block() const { return !loses_; }
  bool may_submit() const { return !caller_runs() || may_block(); }

  void do_something() {
    const std::size_t key = below(kKeys);
    switch (below(12)) {
      case 0:
      case 1:
      case 2:
        if (may_submit()) dispatch(key);
        break;
      case 3:
        for (std::uint64_t i = may_submit() ? below(6) : 0; i > 0; --i) dispatch(key);
        break;
      case 4:
        if (may_submit()) post(key);
        break;
      case 5:
      case 6:
        if (may_block()) call(key, std::nullopt);
        break;
      case 7:
        if (may_block()) call(key, microseconds(below(150)));
        break;
      case 8:
        if (!handles_.empty()) handles_[below(handles_.size())].handle.cancel();
        break;
      case 9:
        sim_.advance(microseconds(below(200)));
        break;
      case 10:
        check_bounds();
        break;
      default:
        for (std::uint64_t i = below(8); i > 0; --i) scheduler_.run_one();
    }
  }

  // ---- submitting, from outside or from within work

  Known& make_known(std::size_t key) {
    Known& work = known_.emplace_back();
    work.key = key;
    work.lane = lane_of(key);
    work.number = ++submitted_;
    return work;
  }

  template <class F>
  auto blocking(F f) {
    ++depth_;
    auto result = f();
    --depth_;
    return result;
  }

  void dispatch(std::size_t key) {
    Known& work = make_known(key);
    Result<TaskHandle<int>> handle = blocking([&]() -> Result<TaskHandle<int>> {
      const std::string name = name_of(key);
      switch (below(5)) {
        case 0:
          return dispatcher_->dispatch(name, [this, &work] { return plain(work); });
        case 1:
          return dispatcher_->dispatch(name, [this, &work]() -> int {
            Running running(*this, work);
            throw kBoom;
          });
        case 2:
          return dispatcher_->dispatch(name, [this, &work] { return calls_inside(work); });
        case 3:
          return dispatcher_->dispatch(name, [this, &work] { return awaits_another(work); });
        default:
          return dispatcher_->dispatch(name, [this, &work] { return naps(work); });
      }
    });
    if (handle) {
      handles_.push_back({std::move(*handle), &work});
    } else {
      refuse(work, handle.error());
    }
  }

  void post(std::size_t key) {
    Known& work = make_known(key);
    const Result<void> posted = blocking(
        [&] { return dispatcher_->post(name_of(key), [this, &work] { return naps(work); }); });
    if (!posted) refuse(work, posted.error());
  }

  void call(std::size_t key, std::optional<Duration> time_to_begin) {
    Known& work = make_known(key);
    if (time_to_begin) work.expires = sim_.now() + *time_to_begin;
    const bool coroutine = one_in(2);
    const bool throws = one_in(5);
    bool thrown = false;
    const Result<int> result = blocking([&]() -> Result<int> {
      const auto run = [&](auto work_to_do) {
        return time_to_begin ? dispatcher_->try_run_for(name_of(key), *time_to_begin, work_to_do)
                             : dispatcher_->run(name_of(key), work_to_do);
      };
      try {
        if (coroutine) return run([&] { return naps(work); });
        return run([&] {
          const int value = plain(work);
          if (throws) throw kBoom;
          return value;
        });
      } catch (int) {
        thrown = true;
        return 1;
      }
    });
    expect(!thrown || throws, "a call threw what its work did not");
    if (result) {
      expect(work.begun == 1 && work.ended == 1, "a call has returned before its work has ended");
    } else {
      refuse(work, result.error());
    }
  }

  void refuse(Known& work, const Error& error) {
    work.refused = true;
    expect(work.begun == 0, "refused, but it ran: " + error.message);
    const bool in_time = sim_.now() < work.expires;
    switch (error.code) {
      case ErrorCode::kRejected:
        expect(error.retryable && (!caller_runs() || rejected_inside_),
               "rejected: " + error.message);
        break;
      case ErrorCode::kExpired:
        expect(error.retryable && !in_time, "expired too soon");
        break;
      case ErrorCode::kWaitCycle:
        expect(depth_ > 0 || nested_ > 0, "a cycle without a task: " + error.message);
        break;
      case ErrorCode::kNoThread:
        // The worker it needs is blocked, in a wait for this one.
        expect(is_sticky() && nested_ > 1, "no thread: " + error.message);
        break;
      case ErrorCode::kShutdown:
        expect(closing_, "shut down too soon");
        break;
      default:
        expect(false, "an error: " + error.message);
    }
  }

  // ---- work

  void begin(Known& work) {
    expect(++work.begun == 1, "begun twice");
    expect(!work.refused, "refused, and begun");
    expect(sim_.now() <= work.expires, "begun too late");
    expect(inside_[work.lane] == nullptr, "two at once of key " + name_of(work.key));
    inside_[work.lane] = &work;
    expect(last_begun_[work.lane] < work.number, "out of order: key " + name_of(work.key));
    last_begun_[work.lane] = work.number;
  }

  int plain(Known& work) {
    Running running(*this, work);
    return 1;
  }

  Task<int> naps(Known& work) {
    Running running(*this, work);
    for (std::uint64_t i = below(3); i > 0; --i) co_await sleep_for(microseconds(1 + below(60)));
    co_return 1;
  }

  // Calls its own lane, which runs at once, and posts to it, which is queued.
  int calls_inside(Known& work) {
    Running running(*this, work);
    const std::string name = name_of(work.key);
    bool ran = false;
    if (one_in(2)) {
      const Result<int> inner = dispatcher_->run(name, [&] {
        expect(inside_[work.lane] == &work, "a call inside its lane is not inside");
        ran = true;
        return 2;
      });
      expect(ran && inner && *inner == 2, "a call inside its lane did not run");
    } else if (may_block()) {
      Result<TaskHandle<int>> inner = blocking([&] {
        return dispatcher_->dispatch(name, [&]() -> Task<int> {
          co_await sleep_for(microseconds(below(20)));
          expect(inside_[work.lane] == &work, "a coroutine inside its lane is not inside");
          ran = true;
          co_return 2;
        });
      });
      expect(inner && inner->is_done(), "a coroutine inside its lane was not waited for");
      // A shutdown asks it to stop.
      expect(ran || (inner && inner->join().status == TaskStatus::kCancelled),
             "a coroutine inside its lane did not run to its end");
    }
    rejected_inside_ = true;
    if (may_submit()) post(work.key);
    rejected_inside_ = false;
    return 1;
  }

  // co_await for a handle. If it is refused, it blocks until the permit that it gave back is there again.
  struct Awaiting {
    bool await_ready() const { return awaiter.await_ready(); }
    template <class Promise>
    bool await_suspend(std::coroutine_handle<Promise> coroutine) {
      Schedule& still_there = schedule;
      ++still_there.depth_;
      const bool suspended = awaiter.await_suspend(coroutine);
      --still_there.depth_;
      return suspended;
    }
    GroupResult<int> await_resume() { return awaiter.await_resume(); }

    Schedule& schedule;
    TaskHandle<int>::Awaiter awaiter;
  };

  // Dispatches to another lane, or calls it, and waits.
  Task<int> awaits_another(Known& work) {
    Running running(*this, work);
    const std::size_t other = (work.key + 1 + below(kKeys - 1)) % kKeys;
    if (!may_block() || lane_of(other) == work.lane) co_return 0;
    ++nested_;
    if (one_in(2)) {
      running.waits(true);
      call(other, one_in(3) ? std::optional<Duration>(microseconds(below(100))) : std::nullopt);
      running.waits(false);
      --nested_;
      co_return 1;
    }
    Known& there = make_known(other);
    running.waits(true);
    Result<TaskHandle<int>> handle = blocking([&] {
      return dispatcher_->dispatch(name_of(other), [this, &there] { return naps(there); });
    });
    if (!handle) {
      refuse(there, handle.error());
      running.waits(false);
      --nested_;
      co_return 1;
    }
    try {
      const GroupResult<int> result = co_await Awaiting{*this, handle->operator co_await()};
      expect(there.begun == there.ended, "awaited, but not at its end");
      expect(!result.ok() || there.ended == 1, "awaited, and never run");
    } catch (const Exception& error) {
      expect(error.code() == ErrorCode::kWaitCycle || error.code() == ErrorCode::kCancelled ||
                 (is_sticky() && nested_ > 1 && error.code() == ErrorCode::kNoThread),
             std::string("a wait failed: ") + error.what());
    }
    running.waits(false);
    --nested_;
    co_return 1;
  }

  // ---- what must be true

  void check_bounds() {
    const SerialStats stats = dispatcher_->stats();
    std::uint64_t waiting = 0;
    std::set<std::size_t> lanes;
    for (std::size_t key = 0; key < kKeys; ++key) {
      if (!lanes.insert(lane_of(key)).second) continue;
      const Explanation why = dispatcher_->explain(name_of(key));
      waiting += why.waiting;
      expect(why.running <= 1, "a lane with two");
      // One more may stand where the next one begins.
      const std::uint64_t next = why.running == 0 ? 1 : 0;
      expect(why.waiting <= static_cast<std::uint64_t>(options_.queue_capacity) + next,
             "a queue is longer than its capacity");
    }
    expect(stats.waiting == waiting, "stats() miscounts");
    expect(caller_runs() || stats.waiting <= static_cast<std::uint64_t>(options_.total_capacity),
           "more wait in all than may");
  }

  void end() {
    if (wrong_.empty() && !one_in(4)) run_to_the_end();
    scheduler_.find_lost();
    closing_ = true;
    if (one_in(2)) dispatcher_->shutdown(microseconds(below(300)));
    owned_dispatcher_.reset();
    for (Dispatched& one : handles_) check_end(one);
    for (const Known& work : known_) {
      expect(work.begun == work.ended, "begun and not ended");
      expect(!work.refused || work.begun == 0, "refused, and run later");
    }
    expect(running_ == 0, "somebody still runs");
  }

  // Nothing is ready, nobody sleeps: then nobody may wait.
  void run_to_the_end() {
    sim_.run_until_idle();
    const SerialStats stats = dispatcher_->stats();
    expect(stats.waiting == 0, "a wake-up was lost: " + std::to_string(stats.waiting) + " wait");
    expect(stats.running == 0, "a lane was lost: " + std::to_string(stats.running) + " run");
    expect(stats.submitted ==
               stats.succeeded + stats.failed + stats.cancelled + stats.expired + stats.rejected,
           "the counts do not add up");
    for (const Known& work : known_) {
      const bool cancelled = std::any_of(handles_.begin(), handles_.end(), [&](Dispatched& one) {
        return one.work == &work && one.handle.is_done();
      });
      expect(work.ended == 1 || work.refused || cancelled, "lost");
    }
  }

  struct Dispatched {
    TaskHandle<int> handle;
    Known* work;
  };
  void check_end(Dispatched& one) {
    if (!one.handle.is_done()) return expect(false, "a handle waits for ever");
    const GroupResult<int> result = one.handle.join();
    const bool ran = result.status == TaskStatus::kSuccess || result.status == TaskStatus::kFailed;
    expect(!ran || one.work->ended == 1, "a handle says that it ran, the work does not");
    expect(result.status != TaskStatus::kRejected || one.work->begun == 0, "rejected, and run");
  }

  testing::SimScheduler sim_;
  LossyScheduler scheduler_;
  const std::uint64_t seed_;
  const bool loses_;
  std::string wrong_;
  SerialOptions options_;
  bool closing_ = false;
  int depth_ = 0;                 // blocking calls on the stack
  int nested_ = 0;                // work that calls or awaits other work
  bool rejected_inside_ = false;  // work posts to its own lane, and cannot wait for room there
  int submitted_ = 0;
  int running_ = 0;
  std::array<std::string, kKeys> names_{};
  std::array<const Known*, kKeys> inside_{};
  std::array<int, kKeys> last_begun_{};
  std::deque<Known> known_;
  std::vector<Dispatched> handles_;
  std::unique_ptr<SerialDispatcher> owned_dispatcher_;
  SerialDispatcher* dispatcher_ = nullptr;  // also valid while it is destroyed
};

// Four parts, so that they run side by side.
class SerialSchedules : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(SerialSchedules, KeepWhatMustAlwaysBeTrue) {
  expect_schedules_hold<Schedule>(GetParam(), 10'000);
}
INSTANTIATE_TEST_SUITE_P(Part, SerialSchedules, ::testing::Values(0, 1, 2, 3));

TEST(SerialSchedulesWithAPlantedBug, FindALostWakeUpAndReplayIt) {
  expect_planted_bug_is_found<Schedule>("a wake-up was lost");
}

}  // namespace
}  // namespace keyway
