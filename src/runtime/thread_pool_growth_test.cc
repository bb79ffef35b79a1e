// How many threads a pool has, and when: it grows for runnables that are blocked, never for those
// that work, and shrinks again.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <ctime>
#include <functional>
#include <latch>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "keyway/task.h"
#include "keyway/thread_pool.h"
#include "support/jobs.h"
#include "support/own_process.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

using Jobs = std::vector<std::unique_ptr<Job>>;

// Posts `count` jobs that do the same, and keeps them.
Jobs post_all(ThreadPool& pool, int count, const std::function<void()>& work) {
  Jobs jobs;
  for (int i = 0; i < count; ++i) {
    jobs.push_back(std::make_unique<Job>(work));
    pool.post(*jobs.back());
  }
  return jobs;
}

// Where threads sleep until it opens, or until they have waited so long that something is wrong.
class Gate {
 public:
  explicit Gate(int tickets = 1) : tickets_(tickets) {}

  void count_down() {
    const std::lock_guard lock(mutex_);
    --tickets_;
    changed_.notify_all();
  }
  // False if it did not open.
  bool wait() {
    std::unique_lock lock(mutex_);
    const auto open = [this] { return tickets_ <= 0 || gave_up_; };
    if (!changed_.wait_for(lock, 60s, open)) gave_up_ = true;
    changed_.notify_all();
    return !gave_up_;
  }
  bool arrive_and_wait() {
    count_down();
    return wait();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int tickets_;
  bool gave_up_ = false;
};

void burn_cpu(std::chrono::milliseconds time) {
  const auto used = [] {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
  };
  for (const auto end = used() + time; used() < end;) {
  }
}

TEST(ThreadPoolGrowth, RunnablesThatAllWaitForEachOtherGetThrough) {
  for (const int count : {3, 50, 200}) {
    ThreadPool pool({.threads = 2});
    Gate all_are_here(count);
    std::latch left(count);
    std::atomic<int> in_vain{0};
    const Jobs jobs = post_all(pool, count, [&] {
      if (!all_are_here.arrive_and_wait()) ++in_vain;
      left.count_down();
    });
    left.wait();
    EXPECT_EQ(in_vain, 0) << "of " << count;
    EXPECT_GE(pool.stats().peak_threads, static_cast<unsigned>(count));
    pool.wait_for_turns_in_progress();
  }
}

TEST(ThreadPoolGrowth, RunnablesThatUseTheCpuNeverMakeItGrow) {
  ThreadPool pool;
  const unsigned base = pool.stats().threads;
  constexpr int kJobs = 60;
  std::latch left(kJobs);
  const Jobs jobs = post_all(pool, kJobs, [&] {
    burn_cpu(10ms);
    left.count_down();
  });
  left.wait();
  EXPECT_EQ(pool.stats().peak_threads, base);
  pool.wait_for_turns_in_progress();
}

TEST(ThreadPoolGrowth, ItHasNeverMoreThreadsThanItsBound) {
  constexpr int kJobs = 20;
  ThreadPool pool({.threads = 1, .max_threads = 4});
  Gate open;
  std::latch left(kJobs);
  const Jobs jobs = post_all(pool, kJobs, [&] {
    EXPECT_TRUE(open.wait());
    left.count_down();
  });
  EXPECT_TRUE(eventually([&] { return pool.stats().threads == 4; })) << pool.stats().threads;
  open.count_down();
  left.wait();
  EXPECT_EQ(pool.stats().peak_threads, 4U);
  pool.wait_for_turns_in_progress();
}

TEST(ThreadPoolGrowth, ItShrinksAgainWhenItsThreadsWereIdleForTheTimeout) {
  ThreadPool pool({.threads = 2, .idle_timeout = 60ms});
  for (int round = 0; round < 3; ++round) {
    Gate all_are_here(20);
    std::latch left(20);
    const Jobs jobs = post_all(pool, 20, [&] {
      EXPECT_TRUE(all_are_here.arrive_and_wait());
      left.count_down();
    });
    left.wait();
    EXPECT_TRUE(eventually([&] { return pool.stats().threads == 2; })) << pool.stats().threads;
    pool.wait_for_turns_in_progress();
  }
  EXPECT_GE(pool.stats().peak_threads, 20U);
}

bool is_mapped(const char* address) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  auto* const begin =
      reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(address) & ~(page - 1));
  return ::msync(begin, page, MS_ASYNC) == 0;
}

// The stack of a thread stays mapped until the thread is joined; the C library keeps a few of them.
TEST(ThreadPoolGrowth, ThreadsThatHaveEndedAreJoined) {
  constexpr int kJobs = 30;
  ThreadPool pool({.threads = 1, .idle_timeout = 10ms});
  Gate all_are_here(kJobs);
  std::latch left(kJobs);
  std::array<std::atomic<const char*>, kJobs> stacks{};
  std::atomic<std::size_t> count{0};
  const Jobs jobs = post_all(pool, kJobs, [&] {
    const char on_stack = 0;
    stacks[count.fetch_add(1)] = &on_stack;
    EXPECT_TRUE(all_are_here.arrive_and_wait());
    left.count_down();
  });
  left.wait();
  EXPECT_TRUE(eventually([&] {
    return std::count_if(stacks.begin(), stacks.end(),
                         [](const auto& stack) { return is_mapped(stack); }) < kJobs / 2;
  }));
  pool.wait_for_turns_in_progress();
}

// A destructor of a thread's variable that needs the pool's timers.
struct SleepsAtThreadEnd {
  ~SleepsAtThreadEnd() {
    if (pool != nullptr) sync_wait(*pool, []() -> Task<void> { co_await sleep_for(1ms); }());
  }
  ThreadPool* pool = nullptr;
};
thread_local SleepsAtThreadEnd sleeps_at_thread_end;

TEST(ThreadPoolGrowth, AnEndingThreadMayWaitForATimerOfThePool) {
  expect_ends([] {
    constexpr int kJobs = 4;
    ThreadPool pool({.threads = 1, .idle_timeout = 10ms});
    Gate all_are_here(kJobs);
    std::latch left(kJobs);
    const Jobs jobs = post_all(pool, kJobs, [&] {
      EXPECT_TRUE(all_are_here.arrive_and_wait());
      sleeps_at_thread_end.pool = &pool;
      left.count_down();
    });
    left.wait();
    EXPECT_TRUE(eventually([&] { return pool.stats().threads == 1; }));
    sync_wait(pool, []() -> Task<void> { co_await sleep_for(10ms); }());
    pool.wait_for_turns_in_progress();
  });
}

TEST(ThreadPoolGrowth, ThreadsThatAreIdleAreUsedBeforeNewOnesAreMade) {
  ThreadPool pool({.threads = 1, .idle_timeout = 1h});
  unsigned peak = 0;
  for (int round = 0; round < 5; ++round) {
    Gate all_are_here(8);
    std::latch left(8);
    const Jobs jobs = post_all(pool, 8, [&] {
      EXPECT_TRUE(all_are_here.arrive_and_wait());
      left.count_down();
    });
    left.wait();
    pool.wait_for_turns_in_progress();
    if (round == 0) peak = pool.stats().peak_threads;
  }
  // All of the first round's threads are still there; one or two more may be asked for by a tick.
  EXPECT_LE(pool.stats().peak_threads, 2 * peak);
}

// ---- begin_blocking()

// The wait uses the CPU, so that the pool has no other way to know of it than being told.
TEST(ThreadPoolGrowth, AThreadThatSaysItWaitsIsMadeUpFor) {
  ThreadPool pool({.threads = 1});
  for (int round = 0; round < 20; ++round) {
    std::atomic<bool> second_ran{false};
    std::latch done(1);
    Job second([&] { second_ran = true; });
    Job first([&] {
      pool.post(second);
      pool.begin_blocking();
      EXPECT_TRUE(eventually([&] { return second_ran.load(); }));
      pool.end_blocking();
      done.count_down();
    });
    pool.post(first);
    done.wait();
    pool.wait_for_turns_in_progress();
  }
}

TEST(ThreadPoolGrowth, WhatIsPostedAfterAThreadSaidThatItWaitsRunsToo) {
  ThreadPool pool({.threads = 1});
  for (int round = 0; round < 20; ++round) {
    std::atomic<bool> waits{false};
    std::atomic<bool> second_ran{false};
    std::latch done(1);
    Job first([&] {
      pool.begin_blocking();
      pool.begin_blocking();  // within a wait: counts once
      waits = true;
      EXPECT_TRUE(eventually([&] { return second_ran.load(); }));
      pool.end_blocking();
      pool.end_blocking();
      done.count_down();
    });
    Job second([&] { second_ran = true; });
    pool.post(first);
    ASSERT_TRUE(eventually([&] { return waits.load(); }));
    pool.post(second);
    done.wait();
    pool.wait_for_turns_in_progress();
  }
}

TEST(ThreadPoolGrowth, AThreadOfSomebodyElseThatSaysItWaitsIsNoneOfItsBusiness) {
  ThreadPool pool({.threads = 1});
  ThreadPool other({.threads = 1});
  std::latch done(1);
  Job job([&] {
    other.begin_blocking();
    other.end_blocking();
    done.count_down();
  });
  pool.post(job);
  done.wait();
  other.begin_blocking();
  other.end_blocking();
  EXPECT_EQ(other.stats().peak_threads, 1U);
  pool.wait_for_turns_in_progress();
}

// ---- growth while others wait for the pool

TEST(ThreadPoolGrowth, ItGrowsAlsoWhileSomebodyWaitsForTurnsInProgress) {
  for (int round = 0; round < 5; ++round) {
    Gate open;
    std::latch began(1);
    std::atomic<bool> first_got_through{false};
    Job first([&] {
      began.count_down();
      first_got_through = open.wait();
    });
    Job second([&] { open.count_down(); });
    ThreadPool pool({.threads = 1});
    pool.post(first);
    began.wait();
    std::latch about_to_wait(1);
    std::thread waiter([&] {
      about_to_wait.count_down();
      pool.wait_for_turns_in_progress();
    });
    about_to_wait.wait();
    for (int i = 0; i < 1000; ++i) std::this_thread::yield();  // most likely it waits by now
    pool.post(second);  // the only thread is blocked: it takes another one to open the gate
    waiter.join();
    ASSERT_TRUE(first_got_through) << "round " << round;
  }
}

TEST(ThreadPoolGrowth, ItGrowsAlsoWhileItIsDestroyed) {
  Gate all_are_here(4);
  std::atomic<int> in_vain{0};
  Jobs jobs;
  {
    ThreadPool pool({.threads = 1});
    jobs = post_all(pool, 4, [&] {
      if (!all_are_here.arrive_and_wait()) ++in_vain;
    });
  }
  EXPECT_EQ(in_vain, 0) << "they waited for each other until they gave up";
}

// By then the other threads have ended, since there was nothing for them to do.
TEST(ThreadPoolGrowth, ARunnableMayWaitForWhatItPostsWhileThePoolIsDestroyed) {
  Gate open;
  std::atomic<bool> got_through{false};
  Job second([&] { open.count_down(); });
  std::unique_ptr<Job> first;
  {
    ThreadPool pool({.threads = 2});
    std::latch began(1);
    first = std::make_unique<Job>([&] {
      began.count_down();
      EXPECT_TRUE(eventually([&] { return pool.stats().threads == 1; }));
      pool.post(second);
      got_through = open.wait();
    });
    pool.post(*first);
    began.wait();
  }
  EXPECT_TRUE(got_through) << "it waited until it gave up";
}

}  // namespace
}  // namespace keyway
