// Operation, IdleProtocol, TimerQueue, ThreadWakeup, Pump and BlockPool.
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/futex.h"
#include "base/mutex.h"
#include "base/spin_lock.h"
#include "explore/explorations.h"
#include "explore/explored_scheduler.h"
#include "keyway/detail/block_pool.h"
#include "keyway/detail/operation.h"
#include "lanes/ready_queue.h"
#include "runtime/idle_protocol.h"
#include "runtime/thread_wakeup.h"
#include "runtime/timer_queue.h"
#include "stream/pump.h"

namespace keyway::explore {
namespace {

// ---- Operation

// Who sees the id of an operation finds the operation by it.
class TwoDrawTheIdOfAnOperation final : public Scenario {
 public:
  void run(int) override {
    require(keyway::detail::scheduler_that_resumes(operation_.id()) == &scheduler_,
            "an operation is not known by its id");
  }

 private:
  ExploredScheduler scheduler_;
  const keyway::detail::TaskOperation operation_{nullptr, nullptr, &scheduler_};
};
TEST(ExploreOperation, IsKnownByItsId) { expect_holds<TwoDrawTheIdOfAnOperation>("Operation"); }

// ---- IdleProtocol: workers that sleep and are woken as those of ThreadPool are.
//
// A wake-up that is lost leaves an item in the queue while all workers sleep.
class SleepingWorkers final : public Scenario {
 public:
  void run(int thread) override {
    if (thread == 0) {
      for (Item& item : items_) post(item);
      return;
    }
    work(workers_[static_cast<std::size_t>(thread - 1)]);
  }

 private:
  struct Item final : Runnable {
    void run(Turn&) override {}
    bool ran = false;
  };
  struct Worker {
    keyway::detail::Atomic<std::uint32_t> wake_token{0};
    bool parked = false;
  };

  void post(Item& item) {
    queue_.push(item);
    wake_if_needed();
  }
  void wake_if_needed() {
    const IdleCounts counts = idle_.counts();
    if (counts.searching == 0 && counts.parked > 0) wake(1, /*unless_searching=*/true);
  }
  void wake(int how_many, bool unless_searching) {
    std::vector<Worker*> woken;
    {
      MutexLock lock(park_mutex_);
      if (unless_searching && idle_.counts().searching > 0) return;
      for (Worker& worker : workers_) {
        if (!worker.parked || how_many-- <= 0) continue;
        worker.parked = false;
        idle_.unpark_to_search();
        woken.push_back(&worker);
      }
    }
    for (Worker* worker : woken) {
      worker->wake_token.store(1, std::memory_order_release);
      futex_wake_one(worker->wake_token);
    }
  }
  void work(Worker& me) {
    idle_.thread_started();
    bool searching = true;
    while (!over_) {
      if (auto* item = static_cast<Item*>(queue_.pop())) {
        const bool last_searcher = searching && idle_.stop_searching();
        searching = false;
        if (last_searcher && !queue_.empty()) wake_if_needed();
        require(!item->ran, "an item ran twice");
        item->ran = true;
        over_ = std::ranges::all_of(items_, &Item::ran);
        continue;
      }
      if (!searching) searching = idle_.start_searching();
      if (searching && !queue_.empty()) continue;
      park(me, searching);
      searching = true;
    }
    wake(2, /*unless_searching=*/false);
  }
  void park(Worker& me, bool searching) {
    {
      MutexLock lock(park_mutex_);
      me.parked = true;
      idle_.park(searching);
    }
    if ((over_ || !queue_.empty()) && leave_parked(me)) return;
    while (me.wake_token.load(std::memory_order_acquire) == 0) {
      futex_wait(me.wake_token, 0, std::nullopt);
    }
    me.wake_token.store(0, std::memory_order_relaxed);
  }
  bool leave_parked(Worker& me) {
    MutexLock lock(park_mutex_);
    if (!me.parked) return false;
    me.parked = false;
    idle_.unpark_to_search();
    return true;
  }

  ReadyQueue queue_;
  IdleProtocol idle_;
  Mutex<LockRank::kPoolPark> park_mutex_;
  std::array<Worker, 2> workers_;
  std::array<Item, 2> items_;
  bool over_ = false;
};
TEST(ExploreIdleProtocol, NoWakeUpOfOneWorkerIsLost) {
  expect_holds<SleepingWorkers>("IdleProtocol", {.threads = 2});
}
TEST(ExploreIdleProtocol, NoWakeUpOfTwoWorkersIsLost) {
  expect_holds<SleepingWorkers>("IdleProtocol", {.threads = 3});
}

// ---- TimerQueue

template <bool kFireAddsAgain = false>
class CancelAgainstFire final : public Scenario {
 public:
  void run(int thread) override {
    if (thread == 0) {
      for (OneTimer& timer : timers_) queue_.add(timer, TimePoint(std::chrono::seconds(1)));
      added_ = true;
      changed();
      queue_.fire_due(TimePoint(std::chrono::seconds(2)));
      return;
    }
    wait_until("the timers", [this] { return added_; });
    auto timer = timers_.begin() + (thread - 1);
    const bool cancelled = queue_.cancel(*timer);
    require(!timer->fires, "cancel() returned while the timer fires");
    require(cancelled != (timer->fired && !kFireAddsAgain), "neither fired nor cancelled, or both");
    timer->gone = true;
  }
  void check() override {
    for (OneTimer& timer : timers_) {
      require(timer.gone || timer.fired, "a timer was lost");
      require(queue_.cancel(timer) == (kFireAddsAgain && !timer.gone),
              "a timer is queued after cancel() has returned");
    }
  }

 private:
  struct OneTimer final : Timer {
    void fire() override {
      require(!gone, "a timer fires after cancel() has returned");
      fires = true;
      yield();
      if (kFireAddsAgain) {
        queue.add(*this, TimePoint(std::chrono::seconds(3)));
        yield();
      }
      fires = false;
      fired = true;
    }
    explicit OneTimer(TimerQueue& timers) : queue(timers) {}
    TimerQueue& queue;
    bool fires = false;
    bool fired = false;
    bool gone = false;
  };
  TimerQueue queue_;
  std::array<OneTimer, 2> timers_{OneTimer(queue_), OneTimer(queue_)};
  bool added_ = false;
};
TEST(ExploreTimerQueue, CancelAgainstFire) { expect_holds<CancelAgainstFire<>>("TimerQueue"); }
TEST(ExploreTimerQueue, TwoCancelsAgainstFire) {
  expect_holds<CancelAgainstFire<>>("TimerQueue", {.threads = 3});
}
TEST(ExploreTimerQueue, CancelAgainstAFireThatAddsItsTimerAgain) {
  expect_holds<CancelAgainstFire<true>>("TimerQueue");
}

// ---- ThreadWakeup

class WakeAgainstWait final : public Scenario {
 public:
  void run(int thread) override {
    if (thread == 0) {
      data_.write(1);
      wakeup_->wake();
    } else {
      require(block(*wakeup_) == WaitEnd::kDone, "a wait without a deadline gave up");
      require(data_.read() == 1, "a stale value");
      wakeup_.reset();
    }
  }

 private:
  Data<int> data_;
  std::unique_ptr<ThreadWakeup> wakeup_ = std::make_unique<ThreadWakeup>();
};
TEST(ExploreThreadWakeup, WakeAgainstWait) { expect_holds<WakeAgainstWait>("ThreadWakeup"); }

// ---- Operation: its parts may draw its id at the same time.

class DrawsOfAnId final : public Scenario {
 public:
  void run(int thread) override { drawn_[static_cast<std::size_t>(thread)] = whole_.id(); }
  void check() override {
    for (const std::uint64_t id : drawn_) require(whole_.is(id), "an operation has two ids");
  }

 private:
  keyway::detail::Operation whole_;
  std::array<std::uint64_t, 2> drawn_{};
};
TEST(ExploreOperation, DrawsOneId) { expect_holds<DrawsOfAnId>("Operation"); }

// ---- Pump: a step runs after each wake(), and never two at once.

class WakesOfAPump final : public Scenario {
 public:
  void run(int thread) override {
    if (thread == 2) return scheduler_.work();
    wanted_[static_cast<std::size_t>(thread)] = true;
    pump_.wake();
    wait_until("a step", [&] { return !wanted_[static_cast<std::size_t>(thread)]; });
    if (++done_ == 2) scheduler_.stop();
  }

 private:
  class OnePump final : public Pump {
   public:
    explicit OnePump(WakesOfAPump& scenario) : Pump(scenario.scheduler_), scenario_(scenario) {}

   private:
    bool step() override {
      require(!runs_, "two steps at once");
      runs_ = true;
      for (bool& wanted : scenario_.wanted_) {
        yield();
        wanted = false;
      }
      changed();
      runs_ = false;
      return true;
    }
    void ended() override {}
    WakesOfAPump& scenario_;
    bool runs_ = false;
  };

  ExploredScheduler scheduler_;
  OnePump pump_{*this};
  std::array<bool, 2> wanted_{};
  int done_ = 0;
};
TEST(ExplorePump, AStepFollowsEachWake) { expect_holds<WakesOfAPump>("Pump", {.threads = 3}); }

// A wake-up that meets the last step, or comes after it, posts nothing: the pump is destroyed when its end was seen.
class EndOfAPump final : public Scenario {
 public:
  void run(int thread) override {
    if (thread == 2) return scheduler_.work();
    pump_->wake();
    if (thread == 1) {
      other_woke_ = true;
      return changed();
    }
    require(block(pump_->over) == WaitEnd::kDone, "a wait without a deadline gave up");
    wait_until("the other wake-up", [&] { return other_woke_; });
    pump_.reset();
    scheduler_.stop();
  }

 private:
  class OnePump final : public Pump {
   public:
    explicit OnePump(Scheduler& scheduler) : Pump(scheduler) {}
    ThreadWakeup over;

   private:
    bool step() override {
      require(!std::exchange(stepped_, true), "a step after the last one");
      return false;
    }
    void ended() override { over.wake(); }
    bool stepped_ = false;
  };

  ExploredScheduler scheduler_;
  std::unique_ptr<OnePump> pump_ = std::make_unique<OnePump>(scheduler_);
  bool other_woke_ = false;
};
TEST(ExplorePump, MayBeDestroyedAfterItsEnd) { expect_holds<EndOfAPump>("Pump", {.threads = 3}); }

// ---- BlockPool: no block is given out twice, wherever it was freed.

class BlocksThatTravel final : public Scenario {
 public:
  void run(int thread) override {
    const auto me = static_cast<std::size_t>(thread);
    for (int round = 0; round < 2; ++round) {
      for (Block*& slot : shared_[me]) slot = allocate(thread);
      // The other thread's blocks are freed here.
      for (Block*& slot : shared_[1 - me]) {
        if (slot != nullptr) free(std::exchange(slot, nullptr));
      }
      keyway::detail::release_thread_blocks();
    }
    if (thread == 0) keyway::detail::trim_blocks();
  }
  void check() override {
    for (auto& slots : shared_) {
      for (Block* slot : slots) {
        if (slot != nullptr) free(slot);
      }
    }
    // The next execution finds the pool as this one did.
    keyway::detail::trim_blocks();
  }

 private:
  static constexpr std::size_t kBytes = 400;  // few blocks to a magazine, and to a page
  struct Block {
    std::uint64_t links[2];  // the pool's, while it is free
    const Block* self;
    int owner;
  };

  Block* allocate(int thread) {
    auto* block = static_cast<Block*>(keyway::detail::allocate_block(kBytes));
    require(std::ranges::find(live_, block) == live_.end(), "a block was given out twice");
    live_.push_back(block);
    block->self = block;
    block->owner = thread;
    return block;
  }
  void free(Block* block) {
    require(block->self == block, "a block was overwritten while it was in use");
    std::erase(live_, block);
    keyway::detail::deallocate_block(block, kBytes);
  }

  std::array<std::array<Block*, 9>, 2> shared_{};
  std::vector<Block*> live_;
};
TEST(ExploreBlockPool, BlocksThatTravelBetweenThreads) {
  expect_holds<BlocksThatTravel>("BlockPool", {.explores_blocks = true});
}

}  // namespace
}  // namespace keyway::explore
