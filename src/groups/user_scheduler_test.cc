// A Scheduler as a user writes it, from keyway/scheduler.h alone.
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <future>
#include <map>
#include <mutex>
#include <thread>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;

// One thread for work and timers.
class OneThread final : public Scheduler {
 public:
  OneThread() : thread_([this] { loop(); }) {}
  ~OneThread() override {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void post(Runnable& runnable) override {
    const std::lock_guard lock(mutex_);
    ready_.push_back(&runnable);
    changed_.notify_all();
  }
  TimePoint now() const override { return std::chrono::steady_clock::now(); }
  void add_timer(Timer& timer, TimePoint deadline) override {
    const std::lock_guard lock(mutex_);
    timers_.emplace(deadline, &timer);
    changed_.notify_all();
  }
  bool cancel_timer(Timer& timer) override {
    std::unique_lock lock(mutex_);
    if (std::erase_if(timers_, [&](const auto& one) { return one.second == &timer; }) > 0) {
      return true;
    }
    changed_.wait(lock, [&] { return fires_ != &timer || is_own_thread(); });
    return false;
  }
  bool wait_for_turns_in_progress(const TimePoint* deadline) override {
    std::unique_lock lock(mutex_);
    if (is_own_thread()) return true;
    const std::uint64_t turns = turns_;
    const auto over = [&] { return !runs_ || turns_ != turns; };
    if (deadline != nullptr) return changed_.wait_until(lock, *deadline, over);
    changed_.wait(lock, over);
    return true;
  }
  std::size_t max_threads() const override { return 1; }

 private:
  bool is_own_thread() const { return std::this_thread::get_id() == thread_.get_id(); }

  void loop() {
    std::unique_lock lock(mutex_);
    while (!ends_ || !ready_.empty()) {
      if (!ready_.empty()) {
        Runnable* runnable = ready_.front();
        ready_.pop_front();
        runs_ = true;
        lock.unlock();
        run_posted(*runnable);
        lock.lock();
        runs_ = false;
        ++turns_;
        changed_.notify_all();
      } else if (!timers_.empty() && timers_.begin()->first <= now()) {
        fires_ = timers_.begin()->second;
        timers_.erase(timers_.begin());
        lock.unlock();
        fires_->fire();
        lock.lock();
        fires_ = nullptr;
        changed_.notify_all();
      } else if (timers_.empty()) {
        changed_.wait(lock);
      } else {
        const TimePoint first = timers_.begin()->first;
        changed_.wait_until(lock, first);
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Runnable*> ready_;
  std::multimap<TimePoint, Timer*> timers_;
  Timer* fires_ = nullptr;
  bool runs_ = false;
  bool ends_ = false;
  std::uint64_t turns_ = 0;
  std::thread thread_;
};

ErrorCode code_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Exception& exception) {
    return exception.code();
  }
}

TEST(UserScheduler, RunsTasksAndCoroutines) {
  OneThread thread;
  GroupExecutor executor({}, thread);
  EXPECT_EQ(executor.submit("a", [&] { return Scheduler::current() == &thread; }).join().value(),
            true);
  EXPECT_EQ(Scheduler::current(), nullptr);
  const auto sleeps = []() -> Task<int> {
    co_await sleep_for(1ms);
    co_return 2;
  };
  EXPECT_EQ(executor.submit("a", sleeps).join().value(), 2);
}

TEST(UserScheduler, AWaitThatLeavesItNoThreadIsRefused) {
  OneThread thread;
  GroupExecutor executor({}, thread);
  auto outer = executor.submit(
      "a", "outer", [&] { return executor.submit("b", "inner", [] { return 1; }).join().value(); });
  const GroupResult<int> result = outer.join();
  ASSERT_EQ(result.status, TaskStatus::kFailed);
  EXPECT_EQ(code_of(result.error), ErrorCode::kNoThread);
}

TEST(UserScheduler, WhatAsksToRunAgainIsPostedAgain) {
  struct Twice final : Runnable {
    void run(Turn& turn) override {
      if (++runs == 1) turn.again = this;
      if (runs == 2) done.set_value();
    }
    int runs = 0;
    std::promise<void> done;
  } twice;
  OneThread thread;
  thread.post(twice);
  twice.done.get_future().wait();
  EXPECT_EQ(twice.runs, 2);
}

}  // namespace
}  // namespace keyway
