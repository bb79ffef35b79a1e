#include "keyway/thread_pool.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <latch>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/spin_lock.h"
#include "keyway/detail/idle_listener.h"
#include "keyway/error.h"
#include "runtime/blocked_probe.h"
#include "support/jobs.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

struct CountedJob final : Runnable {
  void run(Turn&) override {
    times_run.fetch_add(1, std::memory_order_relaxed);
    total->fetch_add(1, std::memory_order_release);
  }
  std::atomic<int> times_run{0};
  std::atomic<int>* total = nullptr;
};

void spin_for(std::chrono::microseconds time) {
  for (const auto end = steady_clock::now() + time; steady_clock::now() < end;) cpu_relax();
}

TEST(ThreadPool, ExecutesCallablesAlsoMoveOnlyOnes) {
  std::atomic<int> sum{0};
  std::latch ran(3);
  {
    ThreadPool pool({.threads = 2});
    const auto add = [&](int number) {
      sum += number;
      ran.count_down();
    };
    pool.execute([&add] { add(1); });
    pool.execute([&add, owner = std::make_unique<int>(2)] { add(*owner); });
    const std::function<void()> function = [&add] { add(4); };
    pool.execute(function);
    ran.wait();
    pool.execute([&sum] { sum += 8; });
  }
  EXPECT_EQ(sum, 15) << "the destructor runs what was posted";
}

TEST(ThreadPool, DestroysWhatACallableOwnsOnceAfterItRan) {
  const auto owned = std::make_shared<int>(1);
  {
    ThreadPool pool({.threads = 2});
    for (int i = 0; i < 1'000; ++i) pool.execute([owned] { EXPECT_EQ(*owned, 1); });
  }
  EXPECT_EQ(owned.use_count(), 1);
}

TEST(ThreadPool, RunsEverythingThatManyThreadsPostExactlyOnce) {
  constexpr int kThreads = 4;
  constexpr int kEach = 250'000;
  ThreadPool pool;
  std::atomic<int> total{0};
  const auto jobs = std::make_unique<CountedJob[]>(kThreads * kEach);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (int k = 0; k < kEach; ++k) {
        CountedJob& job = jobs[static_cast<std::size_t>(i * kEach + k)];
        job.total = &total;
        pool.post(job);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(eventually([&] { return total == kThreads * kEach; })) << total;
  for (int i = 0; i < kThreads * kEach; ++i) {
    ASSERT_EQ(jobs[static_cast<std::size_t>(i)].times_run, 1) << "job " << i;
  }
}

TEST(ThreadPool, OneThreadRunsWhatIsPostedInTheOrderOfPosting) {
  constexpr int kJobs = 10'000;
  std::vector<int> order;
  std::vector<std::unique_ptr<Job>> jobs;
  {
    ThreadPool pool({.threads = 1, .max_threads = 1});
    for (int i = 0; i < kJobs; ++i) {
      jobs.push_back(std::make_unique<Job>([&order, i] { order.push_back(i); }));
      pool.post(*jobs.back());
    }
  }
  ASSERT_EQ(order.size(), static_cast<std::size_t>(kJobs));
  for (int i = 0; i < kJobs; ++i) ASSERT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST(ThreadPool, ARunnableMayBePostedAgainByItsOwnRun) {
  ThreadPool pool;
  std::latch last(1);
  int rounds = 0;  // not atomic: the pool must order one run after the other
  Job job;
  job.work = [&] {
    if (++rounds == 10'000) {
      last.count_down();
    } else {
      pool.post(job);
    }
  };
  pool.post(job);
  last.wait();
  EXPECT_EQ(rounds, 10'000);
}

TEST(ThreadPool, ARunnableThatAsksForItRunsAgainAndLetsOthersInBetween) {
  std::vector<int> order;
  Repeater repeater(3, [&] { order.push_back(0); });
  Job other([&] { order.push_back(1); });
  std::latch go(1);
  Job first([&] { go.wait(); });
  {
    ThreadPool pool({.threads = 1, .max_threads = 1});
    pool.post(first);
    pool.post(repeater);
    pool.post(other);
    go.count_down();
  }
  EXPECT_EQ(order, (std::vector{0, 1, 0, 0}));
}

// One that asks to run again wakes nobody, and still neither is left lying while the other waits for it.
TEST(ThreadPool, RunnablesThatRunAgainAlwaysMeetOnTwoThreads) {
  constexpr int kRounds = 20'000;
  std::atomic<int> met{0};
  std::atomic<bool> in_vain{false};
  const auto meet = [&] {
    const int round = met.fetch_add(1) / 2;
    const auto give_up = steady_clock::now() + 5s;
    while (met.load() < 2 * (round + 1) && !in_vain) {
      if (steady_clock::now() > give_up) in_vain = true;
    }
    if (round % 100 == 0) spin_for(100us);  // the other one goes to sleep meanwhile
  };
  Repeater repeaters[] = {Repeater(kRounds, meet), Repeater(kRounds, meet)};
  {
    ThreadPool pool({.threads = 2, .max_threads = 2});
    for (Repeater& repeater : repeaters) pool.post(repeater);
  }
  EXPECT_FALSE(in_vain) << "one thread slept while a runnable waited";
  for (const Repeater& repeater : repeaters) EXPECT_EQ(repeater.rounds, kRounds);
}

TEST(ThreadPool, WhatAPosterWroteTheRunnableSeesAndTheOtherWayRound) {
  ThreadPool pool;
  for (int round = 0; round < 2000; ++round) {
    int question = round;
    int answer = -1;
    std::latch done(1);
    Job job([&] {
      answer = question;
      done.count_down();
    });
    pool.post(job);
    done.wait();
    ASSERT_EQ(answer, round);
    pool.wait_for_turns_in_progress();  // the job is on this stack
  }
}

// The times between the posts sweep over what a worker does when it runs out of work: it looks on
// for some 30 us, then it goes to sleep.
TEST(ThreadPool, NoWakeUpIsLostHoweverAPostMeetsAWorkerThatGoesToSleep) {
  for (const unsigned threads : {1U, 2U, 3U}) {
    ThreadPool pool({.threads = threads});
    for (int round = 0; round < 3000; ++round) {
      std::atomic<bool> ran{false};
      Job job([&] { ran = true; });
      spin_for(std::chrono::microseconds(round % 100));
      pool.post(job);
      ASSERT_TRUE(eventually([&] { return ran.load(); })) << "round " << round;
      pool.wait_for_turns_in_progress();
    }
  }
}

TEST(ThreadPool, ATurnInProgressIsWaitedForUntilADeadlineUnlessItBlocks) {
  std::latch busy(1);
  std::latch blocks(1);
  std::latch blocked(1);
  std::latch open(1);
  Job job;
  ThreadPool pool({.threads = 1});  // its destructor waits for the job
  job.work = [&] {
    busy.count_down();
    blocks.wait();
    pool.begin_blocking();
    blocked.count_down();
    open.wait();
    pool.end_blocking();
  };
  pool.post(job);
  busy.wait();
  const TimePoint deadline = pool.now() + 5ms;
  EXPECT_FALSE(pool.wait_for_turns_in_progress(&deadline));
  blocks.count_down();
  EXPECT_TRUE(pool.wait_for_turns_in_progress());
  blocked.wait();
  open.count_down();
}

TEST(ThreadPool, TwoRunnablesThatWaitForEachOtherAlwaysMeetOnTwoThreads) {
  ThreadPool pool({.threads = 2, .max_threads = 2});
  for (int round = 0; round < 5000; ++round) {
    std::atomic<int> here{0};
    std::atomic<int> gone{0};
    std::atomic<bool> in_vain{false};
    const auto wait_for_the_other = [&] {
      ++here;
      const auto give_up = steady_clock::now() + 5s;
      while (here < 2 && steady_clock::now() < give_up) std::this_thread::yield();
      if (here < 2) in_vain = true;
      ++gone;
    };
    Job first(wait_for_the_other);
    Job second(wait_for_the_other);
    spin_for(std::chrono::microseconds(round % 100));
    pool.post(first);
    pool.post(second);
    ASSERT_TRUE(eventually([&] { return gone == 2; }));
    pool.wait_for_turns_in_progress();
    ASSERT_FALSE(in_vain) << "round " << round << ": one thread slept while a runnable waited";
  }
}

TEST(ThreadPool, ItsDestructorRunsWhatIsStillPosted) {
  constexpr int kJobs = 1000;
  std::atomic<int> total{0};
  const auto jobs = std::make_unique<CountedJob[]>(kJobs);
  std::latch open(1);
  Job gate([&] { open.wait(); });
  {
    ThreadPool pool({.threads = 1, .max_threads = 1});
    pool.post(gate);
    for (int i = 0; i < kJobs; ++i) {
      jobs[static_cast<std::size_t>(i)].total = &total;
      pool.post(jobs[static_cast<std::size_t>(i)]);
    }
    EXPECT_EQ(total, 0);
    open.count_down();
  }
  EXPECT_EQ(total, kJobs);
}

TEST(ThreadPool, ItsDestructorRunsWhatIsPostedByWhatItRuns) {
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> runs{0};
    Job chain;
    {
      ThreadPool pool({.threads = 2});
      chain.work = [&] {
        if (++runs < 100) pool.post(chain);
      };
      pool.post(chain);
    }
    ASSERT_EQ(runs, 100);
  }
}

TEST(ThreadPool, IsMadeAndDestroyedWithoutWorkInAnyState) {
  for (int round = 0; round < 200; ++round) {
    ThreadPool pool({.threads = 1U + static_cast<unsigned>(round % 3)});
    spin_for(std::chrono::microseconds(round));  // its threads start, search or sleep
  }
}

TEST(ThreadPool, SeveralPoolsLiveSideBySideAndPostToEachOther) {
  ThreadPool first({.threads = 1});
  ThreadPool second({.threads = 1});
  std::latch last(1);
  int rounds = 0;
  Job ping;
  Job pong([&] { first.post(ping); });
  ping.work = [&] {
    if (++rounds == 1000) {
      last.count_down();
    } else {
      second.post(pong);
    }
  };
  first.post(ping);
  last.wait();
}

TEST(ThreadPool, CountsItsTurnsAndSaysWhoSleeps) {
  ThreadPool pool({.threads = 2});
  EXPECT_EQ(pool.stats().threads, 2U);
  std::atomic<int> total{0};
  const auto jobs = std::make_unique<CountedJob[]>(100);
  for (int i = 0; i < 100; ++i) {
    jobs[static_cast<std::size_t>(i)].total = &total;
    pool.post(jobs[static_cast<std::size_t>(i)]);
  }
  EXPECT_TRUE(eventually([&] { return pool.stats().turns == 100; })) << pool.stats().turns;
  EXPECT_TRUE(eventually([&] { return pool.stats().parked == 2; })) << pool.stats().parked;
  EXPECT_EQ(pool.stats().peak_threads, 2U);
  EXPECT_GE(pool.stats().parks, 2U);
}

// ---- turns in progress

TEST(ThreadPool, SaysSoWhenItHasHadNothingToDoForAWhile) {
  struct Counter final : IdleListener {
    void scheduler_is_idle() noexcept override { ++times; }
    std::atomic<int> times{0};
  };
  ThreadPool pool({.threads = 2});
  Counter stays;
  Counter leaves;
  pool.add_idle_listener(stays);
  pool.add_idle_listener(leaves);
  ASSERT_TRUE(eventually([&] { return stays.times > 0; }));
  pool.remove_idle_listener(leaves);
  const int before = leaves.times;
  std::atomic<bool> ran{false};
  Job job([&] { ran = true; });
  pool.post(job);
  ASSERT_TRUE(eventually([&] { return ran.load(); }));
  pool.wait_for_turns_in_progress();  // the job is on this stack
  const int seen = stays.times;
  ASSERT_TRUE(eventually([&] { return stays.times > seen; })) << "after each time of work";
  EXPECT_EQ(leaves.times, before);
  pool.remove_idle_listener(stays);
}

TEST(ThreadPool, WaitingForTurnsInProgressReturnsAfterTheRunThatWasInProgress) {
  ThreadPool pool({.threads = 1, .max_threads = 1});
  for (int round = 0; round < 200; ++round) {
    std::latch began(1);
    std::latch open(1);
    bool ended = false;  // not atomic: the wait must order it
    Job job([&] {
      began.count_down();
      open.wait();
      ended = true;
    });
    pool.post(job);
    began.wait();
    std::thread waiter([&] {
      pool.wait_for_turns_in_progress();
      EXPECT_TRUE(ended);
    });
    open.count_down();
    waiter.join();
  }
}

TEST(ThreadPool, WaitingForTurnsInProgressDoesNotWaitForItsOwn) {
  ThreadPool pool({.threads = 2});
  std::latch done(1);
  Job job([&] {
    pool.wait_for_turns_in_progress();
    done.count_down();
  });
  pool.post(job);
  done.wait();
}

TEST(ThreadPool, WaitingForTurnsInProgressDoesNotWaitForThoseThatComeLater) {
  ThreadPool pool({.threads = 2});
  std::atomic<bool> stop{false};
  std::latch ended(2);
  Job first;
  Job second;
  for (Job* job : {&first, &second}) {
    job->work = [&, job] {
      if (stop) {
        ended.count_down();
      } else {
        pool.post(*job);
      }
    };
    pool.post(*job);
  }
  for (int round = 0; round < 1000; ++round) pool.wait_for_turns_in_progress();
  stop = true;
  ended.wait();
}

TEST(ThreadPool, ItsThreadsCanBeEndedBeforeIt) {
  ThreadPool pool({.threads = 3});
  std::atomic<int> ran = 0;
  Job first([&] { ++ran; });
  pool.post(first);
  pool.end_threads();
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(pool.stats().threads, 0U);
  struct Never final : Timer {
    void fire() override { ADD_FAILURE() << "fired without a thread"; }
  } never;
  pool.add_timer(never, pool.now());
  EXPECT_TRUE(pool.cancel_timer(never));
  Job late([&] { ++ran; });
  pool.post(late);
  pool.wait_for_turns_in_progress();
  pool.end_threads();
  EXPECT_EQ(ran, 1);
}

TEST(ThreadPool, ItsDestructorSleepsWhileAnItemRuns) {
  std::atomic<BlockedProbe*> destroyer{nullptr};
  int sleeps_in_a_row = 0;
  BlockedProbe probe;
  {
    ThreadPool pool({.threads = 1});
    pool.execute([&] {
      while (destroyer == nullptr) std::this_thread::yield();
      for (int looks = 0; looks < 300 && sleeps_in_a_row < 5; ++looks) {
        std::this_thread::sleep_for(10ms);
        sleeps_in_a_row = destroyer.load()->blocked(steady_clock::now()) ? sleeps_in_a_row + 1 : 0;
      }
    });
    destroyer = &probe;
  }
  EXPECT_EQ(sleeps_in_a_row, 5);
}

using ThreadPoolDeathTest = ::testing::Test;

TEST(ThreadPoolDeathTest, APoolCannotBeDestroyedByItsOwnThread) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        auto pool = std::make_unique<ThreadPool>(ThreadPoolOptions{.threads = 1});
        std::latch never(1);
        Job job([&] { pool.reset(); });
        pool->post(job);
        never.wait();
      },
      "cannot be destroyed by its own thread");
}

TEST(ThreadPool, RefusesOptionsOutOfRange) {
  const auto message_of = [](ThreadPoolOptions options) -> std::string {
    try {
      const ThreadPool pool(options);
      return "";
    } catch (const Exception& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      return error.what();
    }
  };
  EXPECT_EQ(message_of({.threads = 4, .max_threads = 2}),
            "max_threads is 2; it must be at least 4, the value of threads");
  EXPECT_EQ(message_of({.max_threads = 0}), "max_threads is 0; it must be at least 1");
  EXPECT_EQ(message_of({.idle_timeout = -1s}), "idle_timeout is negative; it must be at least 0");
  const ThreadPool pool({.max_threads = 1});
  EXPECT_EQ(pool.max_threads(), 1U) << "however many cores there are";
}

}  // namespace
}  // namespace keyway
