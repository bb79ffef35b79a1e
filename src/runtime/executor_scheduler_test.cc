#include "keyway/executor_scheduler.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <latch>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/task.h"
#include "support/jobs.h"
#include "support/own_process.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

// Somebody's own executor, with a few threads.
class Crew {
 public:
  explicit Crew(int threads) {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
  }
  ~Crew() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
      changed_.notify_all();
    }
    for (std::thread& thread : threads_) thread.join();
  }
  void execute(std::function<void()> f) {
    const std::lock_guard lock(mutex_);
    ++calls;
    queue_.push_back(std::move(f));
    changed_.notify_one();
  }
  std::atomic<int> calls{0};

 private:
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return closed_ || !queue_.empty(); });
      if (queue_.empty()) return;
      const std::function<void()> f = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      f();
      lock.lock();
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool closed_ = false;
  std::vector<std::thread> threads_;
};

// Keeps what it is given until it is told to run it.
struct Later {
  void execute(std::function<void()> f) { kept.push_back(std::move(f)); }
  void run_all() {
    while (!kept.empty()) {
      const std::function<void()> f = std::move(kept.front());
      kept.pop_front();
      f();
    }
  }
  std::deque<std::function<void()>> kept;
};

struct Alarm final : Timer {
  explicit Alarm(std::function<void()> then) : on_fire(std::move(then)) {}
  void fire() override { on_fire(); }
  std::function<void()> on_fire;
};

TEST(ExecutorScheduler, EachPostIsOneCallOfExecuteAndNothingRunsByItself) {
  Later later;
  const auto scheduler = make_executor_scheduler(later);
  std::vector<int> order;
  std::vector<std::unique_ptr<Job>> jobs;
  for (int i = 0; i < 3; ++i) {
    jobs.push_back(std::make_unique<Job>([&order, i] { order.push_back(i); }));
    scheduler->post(*jobs.back());
  }
  EXPECT_EQ(later.kept.size(), 3U);
  EXPECT_TRUE(order.empty());
  later.run_all();
  EXPECT_EQ(order, (std::vector{0, 1, 2}));
}

TEST(ExecutorScheduler, TakesAPlainFunctionToo) {
  std::vector<std::function<void()>> kept;
  const auto scheduler =
      make_executor_scheduler([&](std::function<void()> f) { kept.push_back(std::move(f)); });
  bool ran = false;
  Job job([&] { ran = true; });
  scheduler->post(job);
  kept.at(0)();
  EXPECT_TRUE(ran);
}

TEST(ExecutorScheduler, RunsWhatExecuteDidNotTake) {
  expect_ends([] {
    std::deque<Job> jobs;
    std::atomic<int> ran_here{0};
    {
      const std::unique_ptr<Scheduler> scheduler = make_executor_scheduler(
          [](const std::function<void()>&) { throw std::runtime_error("queue is full"); });
      for (int i = 0; i < 10; ++i) {
        jobs.emplace_back([&] {
          if (Scheduler::current() == scheduler.get()) ++ran_here;
        });
        scheduler->post(jobs.back());
      }
    }
    EXPECT_EQ(ran_here, 10);
  });
}

// As the executors of Asio do on their own threads.
TEST(ExecutorScheduler, RunsNothingWithinPost) {
  for (const bool always_inline : {false, true}) {
    expect_ends([&] {
      Crew crew(1);
      const std::thread::id here = std::this_thread::get_id();
      std::mutex held;
      std::atomic<int> ran{0};
      Job job([&] {
        const std::lock_guard lock(held);  // the thread that posts it holds this
        ++ran;
      });
      {
        const std::unique_ptr<Scheduler> scheduler =
            make_executor_scheduler([&](std::function<void()> f) {
              const bool is_inline = always_inline || std::this_thread::get_id() == here;
              is_inline ? f() : crew.execute(std::move(f));
            });
        const std::lock_guard lock(held);
        scheduler->post(job);
        EXPECT_EQ(ran, 0);
      }
      EXPECT_EQ(ran, 1);
      EXPECT_EQ(crew.calls, always_inline ? 0 : 1);
    });
  }
}

TEST(ExecutorScheduler, ARunnableMayBePostedAgainByItsOwnRun) {
  Later later;
  const auto scheduler = make_executor_scheduler(later);
  int rounds = 0;
  Job job;
  job.work = [&] {
    if (++rounds < 10) scheduler->post(job);
  };
  scheduler->post(job);
  later.run_all();
  EXPECT_EQ(rounds, 10);
}

TEST(ExecutorScheduler, ARunnableThatAsksForItRunsAgain) {
  Later later;
  const auto scheduler = make_executor_scheduler(later);
  Repeater repeater(10);
  scheduler->post(repeater);
  later.run_all();
  EXPECT_EQ(repeater.rounds, 10);
}

TEST(ExecutorScheduler, RunsEverythingOnTheThreadsOfItsExecutor) {
  Crew crew(3);
  constexpr int kJobs = 10'000;
  std::atomic<int> ran{0};
  std::vector<std::unique_ptr<Job>> jobs;
  {
    const auto scheduler = make_executor_scheduler(crew);
    for (int i = 0; i < kJobs; ++i) {
      jobs.push_back(std::make_unique<Job>([&] { ++ran; }));
      scheduler->post(*jobs.back());
    }
  }
  EXPECT_EQ(ran, kJobs) << "the destructor waits for all of them";
  EXPECT_EQ(crew.calls, kJobs);
}

TEST(ExecutorScheduler, ItsDestructorWaitsUntilEveryArgumentHasRun) {
  Later later;
  auto scheduler = make_executor_scheduler(later);
  std::atomic<bool> ran{false};
  Job job([&] { ran = true; });
  scheduler->post(job);
  std::thread destroyer([&] {
    scheduler.reset();
    EXPECT_TRUE(ran);
  });
  later.run_all();
  destroyer.join();
}

TEST(ExecutorScheduler, HasTimersOfItsOwn) {
  Later later;
  const auto scheduler = make_executor_scheduler(later);
  std::latch fired(1);
  const TimePoint deadline = scheduler->now() + 5ms;
  Alarm alarm([&] {
    EXPECT_GE(steady_clock::now(), deadline);
    fired.count_down();
  });
  scheduler->add_timer(alarm, deadline);
  fired.wait();
  Alarm never([] { ADD_FAILURE() << "an hour too early"; });
  scheduler->add_timer(never, scheduler->now() + 1h);
  EXPECT_TRUE(scheduler->cancel_timer(never));
  EXPECT_FALSE(scheduler->cancel_timer(alarm));
}

// execute() may block, for room in a queue for example. Called on the timers' thread, it would hold all of them up.
TEST(ExecutorScheduler, AnExecuteThatBlocksDelaysNoTimer) {
  expect_ends([] {
    std::latch second_fired(1);
    std::atomic<int> ran = 0;
    {
      const auto scheduler = make_executor_scheduler([&](const std::function<void()>& f) {
        second_fired.wait();
        f();
      });
      Job job([&] { ++ran; });
      Alarm first([&] { scheduler->post(job); });
      Alarm second([&] { second_fired.count_down(); });
      scheduler->add_timer(first, scheduler->now());
      scheduler->add_timer(second, scheduler->now() + 1ms);
      second_fired.wait();
      EXPECT_TRUE(eventually([&] { return ran == 1; }));
    }
    EXPECT_EQ(ran, 1);
  });
}

TEST(ExecutorScheduler, WaitingForTurnsInProgressReturnsAfterTheRunThatWasInProgress) {
  Crew crew(2);
  const auto scheduler = make_executor_scheduler(crew);
  for (int round = 0; round < 200; ++round) {
    std::latch began(1);
    std::latch open(1);
    bool ended = false;  // not atomic: the wait must order it
    Job job([&] {
      began.count_down();
      open.wait();
      ended = true;
    });
    scheduler->post(job);
    began.wait();
    std::thread waiter([&] {
      scheduler->wait_for_turns_in_progress();
      EXPECT_TRUE(ended);
    });
    open.count_down();
    waiter.join();
  }
}

TEST(ExecutorScheduler, WaitingForTurnsInProgressDoesNotWaitForItsOwn) {
  Crew crew(1);
  std::latch done(1);
  const auto scheduler = make_executor_scheduler(crew);
  Job job([&] {
    scheduler->wait_for_turns_in_progress();
    done.count_down();
  });
  scheduler->post(job);
  done.wait();
}

// Two turns that wait for each other's end, as two listeners that drain do.
TEST(ExecutorScheduler, WaitingForTurnsInProgressDoesNotWaitForThoseInABlockingRegion) {
  expect_ends([] {
    Crew crew(2);
    std::latch both(2);
    std::latch done(2);
    const auto scheduler = make_executor_scheduler(crew);
    const auto wait = [&] {
      both.arrive_and_wait();
      scheduler->begin_blocking();
      scheduler->wait_for_turns_in_progress();
      scheduler->end_blocking();
      done.count_down();
    };
    Job one(wait);
    Job other(wait);
    scheduler->post(one);
    scheduler->post(other);
    done.wait();
  });
}

TEST(ExecutorScheduler, WaitingForTurnsInProgressFromWithinOneWaitsForTheOthers) {
  Crew crew(2);
  const auto scheduler = make_executor_scheduler(crew);
  std::latch began(1);
  std::latch both_done(2);
  std::atomic<bool> waits{false};
  std::atomic<bool> ended{false};
  bool returned_too_early = false;
  Job in_progress([&] {
    began.count_down();
    while (!waits) std::this_thread::yield();
    // The other one, if it does not wait, has returned by then.
    for (int i = 0; i < 10'000; ++i) std::this_thread::yield();
    ended = true;
    both_done.count_down();
  });
  Job waiting([&] {
    waits = true;
    scheduler->wait_for_turns_in_progress();
    returned_too_early = !ended;
    both_done.count_down();
  });
  scheduler->post(in_progress);
  began.wait();
  scheduler->post(waiting);
  both_done.wait();
  EXPECT_FALSE(returned_too_early);
}

TEST(ExecutorScheduler, RunsCoroutines) {
  Crew crew(2);
  const auto scheduler = make_executor_scheduler(crew);
  const auto nap = [](int number) -> Task<int> {
    co_await sleep_for(1ms);
    co_return number;
  };
  const auto sum = [&]() -> Task<int> {
    auto [a, b] = co_await when_all(nap(1), nap(2));
    co_return a + b;
  };
  EXPECT_EQ(sync_wait(*scheduler, sum()), 3);
}

TEST(ExecutorScheduler, ANullExecutorIsRefused) {
  EXPECT_THROW((void)make_executor_scheduler(std::function<void(std::function<void()>)>()),
               Exception);
}

}  // namespace
}  // namespace keyway
