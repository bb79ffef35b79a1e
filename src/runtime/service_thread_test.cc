#include "runtime/service_thread.h"

#include <array>
#include <atomic>
#include <functional>
#include <latch>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/thread_pool.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

struct Alarm final : Timer {
  explicit Alarm(std::function<void()> then) : on_fire(std::move(then)) {}
  void fire() override { on_fire(); }
  std::function<void()> on_fire;
};

// ---- timers, as a pool has them

TEST(PoolTimers, ATimerFiresAndNotBeforeItsDeadline) {
  ThreadPool pool({.threads = 1});
  for (const auto delay : {0ms, 1ms, 5ms, 20ms}) {
    std::latch fired(1);
    TimePoint when{};
    Alarm alarm([&] {
      when = steady_clock::now();
      fired.count_down();
    });
    const TimePoint deadline = pool.now() + delay;
    pool.add_timer(alarm, deadline);
    fired.wait();
    EXPECT_GE(when, deadline);
  }
}

TEST(PoolTimers, ADeadlineInThePastIsDueAtOnce) {
  ThreadPool pool({.threads = 1});
  for (const TimePoint deadline : {pool.now() - 1h, TimePoint{}, TimePoint::min()}) {
    std::latch fired(1);
    Alarm alarm([&] { fired.count_down(); });
    pool.add_timer(alarm, deadline);
    fired.wait();
  }
}

TEST(PoolTimers, AnEarlierTimerIsNotHeldUpByALaterOneThatWasAddedBefore) {
  ThreadPool pool({.threads = 1});
  Alarm late([] { ADD_FAILURE() << "an hour too early"; });
  pool.add_timer(late, pool.now() + 1h);
  std::latch fired(1);
  Alarm early([&] { fired.count_down(); });
  pool.add_timer(early, pool.now() + 1ms);
  fired.wait();
  EXPECT_TRUE(pool.cancel_timer(late));
}

TEST(PoolTimers, TimersOfManyThreadsAllFire) {
  constexpr int kThreads = 4;
  constexpr int kTimers = 500;
  ThreadPool pool({.threads = 2});
  std::latch all(kThreads * kTimers);
  std::vector<std::unique_ptr<Alarm>> alarms(kThreads * kTimers);
  for (auto& alarm : alarms) alarm = std::make_unique<Alarm>([&] { all.count_down(); });
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (int k = 0; k < kTimers; ++k) {
        // Each earlier than the one before.
        pool.add_timer(*alarms[static_cast<std::size_t>(i * kTimers + k)],
                       pool.now() + 10ms - k * 20us);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  all.wait();
}

TEST(PoolTimers, ATimerMayPostToItsPool) {
  struct Flag final : Runnable {
    void run(Turn&) override { ran.count_down(); }
    std::latch ran{1};
  };
  ThreadPool pool({.threads = 1});
  Flag flag;
  Alarm alarm([&] { pool.post(flag); });
  pool.add_timer(alarm, pool.now() + 1ms);
  flag.ran.wait();
}

TEST(PoolTimers, ACancelledTimerCanBeFreedAtOnce) {
  ThreadPool pool({.threads = 1});
  std::atomic<int> fired{0};
  int cancelled = 0;
  for (int round = 0; round < 2000; ++round) {
    const auto alarm = std::make_unique<Alarm>([&] { ++fired; });
    pool.add_timer(*alarm, pool.now() + std::chrono::microseconds(round % 50));
    if (round % 3 == 0) std::this_thread::yield();
    if (pool.cancel_timer(*alarm)) ++cancelled;
  }
  EXPECT_EQ(fired + cancelled, 2000);
}

TEST(PoolTimers, ATimerMayCancelItselfWithoutWaiting) {
  ThreadPool pool({.threads = 1});
  std::latch fired(1);
  std::unique_ptr<Alarm> alarm;
  alarm = std::make_unique<Alarm>([&] {
    EXPECT_FALSE(pool.cancel_timer(*alarm));
    fired.count_down();
  });
  pool.add_timer(*alarm, pool.now());
  fired.wait();
  pool.cancel_timer(*alarm);  // now fire() is over
}

TEST(PoolTimers, APoolMayBeDestroyedWhileTimersWait) {
  Alarm alarm([] { ADD_FAILURE() << "fired after its pool was gone"; });
  {
    ThreadPool pool({.threads = 1});
    pool.add_timer(alarm, pool.now() + 1h);
  }
}

// ---- ticks

class Ticks {
 public:
  bool tick() {
    ++count;
    count.notify_all();
    return wanted;
  }
  void wait_for(int number) const {
    for (int seen = count; seen < number; seen = count) count.wait(seen);
  }
  std::atomic<int> count{0};
  std::atomic<bool> wanted{false};
};

TEST(ServiceThread, DoesNotTickUntilItIsAskedTo) {
  Ticks ticks;
  {
    ServiceThread service([&] { return ticks.tick(); }, [] { return false; });
    std::latch fired(1);
    Alarm alarm([&] { fired.count_down(); });
    service.add_timer(alarm, steady_clock::now() + 5ms);
    fired.wait();
  }
  EXPECT_EQ(ticks.count, 0);
}

TEST(ServiceThread, TicksWhileItIsWanted) {
  Ticks ticks;
  ticks.wanted = true;
  ServiceThread service([&] { return ticks.tick(); }, [&] { return ticks.wanted.load(); });
  service.want_ticks();
  ticks.wait_for(5);
}

// Who wants a tick says why, then asks for it; the thread says that it will sleep, then looks why
// it should not. However the two meet, there is a tick.
TEST(ServiceThread, ATickThatIsWantedWhileItGoesToSleepIsNotLost) {
  Ticks ticks;  // each is the last, as far as tick() knows
  std::atomic<bool> reason{false};
  ServiceThread service([&] { return ticks.tick(); }, [&] { return reason.exchange(false); });
  for (int round = 0; round < 500; ++round) {
    const int before = ticks.count;
    reason = true;
    service.want_ticks();
    ticks.wait_for(before + 1);
  }
}

TEST(ServiceThread, AsksOnceMoreBeforeItSleeps) {
  Ticks ticks;
  std::atomic<int> asked{0};
  ServiceThread service([&] { return ticks.tick(); },
                        [&] { return asked.fetch_add(1) < 3; });  // wanted after all, three times
  service.want_ticks();
  ticks.wait_for(4);
  while (asked < 4) std::this_thread::yield();
  EXPECT_GE(ticks.count, 4);
}

TEST(ServiceThread, TimersFireWhileItTicks) {
  Ticks ticks;
  ticks.wanted = true;
  ServiceThread service([&] { return ticks.tick(); }, [] { return true; });
  service.want_ticks();
  for (int round = 0; round < 20; ++round) {
    std::latch fired(1);
    Alarm alarm([&] { fired.count_down(); });
    service.add_timer(alarm, steady_clock::now() + 100us);
    fired.wait();
    service.cancel_timer(alarm);
  }
}

TEST(ServiceThread, IsDestroyedInTheMidstOfTicksAndTimers) {
  for (int round = 0; round < 100; ++round) {
    Ticks ticks;
    ticks.wanted = true;
    Alarm alarm([] {});
    ServiceThread service([&] { return ticks.tick(); }, [] { return true; });
    service.want_ticks();
    service.add_timer(alarm, steady_clock::now() + std::chrono::microseconds(round));
  }
}

}  // namespace
}  // namespace keyway
