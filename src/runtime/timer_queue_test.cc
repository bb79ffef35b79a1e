#include "runtime/timer_queue.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <latch>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace keyway {
namespace {

using namespace std::chrono_literals;

// Does what it is told when it fires.
struct Alarm final : Timer {
  Alarm() = default;
  explicit Alarm(std::function<void()> then) : on_fire(std::move(then)) {}
  void fire() override {
    ++fired;
    if (on_fire) on_fire();
  }
  std::function<void()> on_fire;
  std::atomic<int> fired{0};
};

TimePoint at(int milliseconds) { return TimePoint(1h) + std::chrono::milliseconds(milliseconds); }

TEST(TimerQueue, StartsWithoutADeadline) {
  TimerQueue queue;
  EXPECT_EQ(queue.next_deadline(), std::nullopt);
  queue.fire_due(TimePoint::max());
}

TEST(TimerQueue, ATimerFiresOnceAndNotBeforeItsDeadline) {
  TimerQueue queue;
  Alarm alarm;
  queue.add(alarm, at(10));
  queue.fire_due(at(10) - 1ns);
  EXPECT_EQ(alarm.fired, 0);
  queue.fire_due(at(10));
  EXPECT_EQ(alarm.fired, 1);
  queue.fire_due(at(20));
  EXPECT_EQ(alarm.fired, 1);
  EXPECT_EQ(queue.next_deadline(), std::nullopt);
}

TEST(TimerQueue, TimersFireInTheOrderOfTheirDeadlines) {
  TimerQueue queue;
  std::vector<int> order;
  std::vector<std::unique_ptr<Alarm>> alarms;
  for (const int when : {30, 10, 50, 20, 40}) {
    alarms.push_back(std::make_unique<Alarm>([&order, when] { order.push_back(when); }));
    queue.add(*alarms.back(), at(when));
  }
  EXPECT_EQ(queue.next_deadline(), at(10));
  queue.fire_due(at(30));
  EXPECT_EQ(order, (std::vector{10, 20, 30}));
  EXPECT_EQ(queue.next_deadline(), at(40));
  queue.fire_due(at(100));
  EXPECT_EQ(order, (std::vector{10, 20, 30, 40, 50}));
}

TEST(TimerQueue, AddSaysWhetherTheTimerIsNowTheEarliest) {
  TimerQueue queue;
  std::array<Alarm, 3> alarms;
  EXPECT_TRUE(queue.add(alarms[0], at(20)));
  EXPECT_FALSE(queue.add(alarms[1], at(30)));
  EXPECT_TRUE(queue.add(alarms[2], at(10)));
  queue.fire_due(at(30));
}

TEST(TimerQueue, ACancelledTimerDoesNotFire) {
  TimerQueue queue;
  std::array<Alarm, 3> alarms;
  for (int i = 0; i < 3; ++i) queue.add(alarms[static_cast<std::size_t>(i)], at(i));
  EXPECT_TRUE(queue.cancel(alarms[0]));
  EXPECT_FALSE(queue.cancel(alarms[0]));
  EXPECT_EQ(queue.next_deadline(), at(1));
  queue.fire_due(at(10));
  EXPECT_EQ(alarms[0].fired, 0);
  EXPECT_EQ(alarms[1].fired + alarms[2].fired, 2);
}

TEST(TimerQueue, ATimerThatHasFiredCannotBeCancelledButCanBeAddedAgain) {
  TimerQueue queue;
  Alarm alarm;
  queue.add(alarm, at(1));
  queue.fire_due(at(1));
  EXPECT_FALSE(queue.cancel(alarm));
  queue.add(alarm, at(2));
  queue.fire_due(at(2));
  EXPECT_EQ(alarm.fired, 2);
}

TEST(TimerQueue, ATimerMayAddItselfAndOthersWhenItFires) {
  TimerQueue queue;
  Alarm other;
  Alarm again;
  again.on_fire = [&] {
    if (again.fired == 1) {
      queue.add(again, at(20));
      queue.add(other, at(5));  // due already
    }
  };
  queue.add(again, at(10));
  queue.fire_due(at(10));
  EXPECT_EQ(other.fired, 1);
  EXPECT_EQ(again.fired, 1);
  queue.fire_due(at(20));
  EXPECT_EQ(again.fired, 2);
}

TEST(TimerQueue, ATimerMayBeFreedByItsOwnFire) {
  struct Suicidal final : Timer {
    explicit Suicidal(TimerQueue& timers) : queue(timers) {}
    void fire() override {
      EXPECT_FALSE(queue.cancel(*this)) << "from within: too late, and no wait";
      delete this;
    }
    TimerQueue& queue;
  };
  TimerQueue queue;
  for (int i = 0; i < 10; ++i) queue.add(*new Suicidal(queue), at(i));
  queue.fire_due(at(10));
}

TEST(TimerQueue, CancelWaitsForAFireThatIsUnderWay) {
  for (int round = 0; round < 100; ++round) {
    TimerQueue queue;
    std::latch fires(1);
    bool fire_is_over = false;  // not atomic: cancel() must order it
    Alarm alarm([&] {
      fires.count_down();
      for (int i = 0; i < 100; ++i) std::this_thread::yield();
      fire_is_over = true;
    });
    queue.add(alarm, at(1));
    std::thread service([&] { queue.fire_due(at(1)); });
    fires.wait();
    EXPECT_FALSE(queue.cancel(alarm));
    EXPECT_TRUE(fire_is_over);
    service.join();
  }
}

// The timer is added again by its own fire(), before or after cancel() is called.
TEST(TimerQueue, CancelWaitsForAFireThatAddsItsTimerAgain) {
  for (int round = 0; round < 100; ++round) {
    TimerQueue queue;
    std::latch fires(1);
    bool fire_is_over = false;  // not atomic: cancel() must order it
    Alarm alarm([&] {
      if (round % 2 == 0) queue.add(alarm, at(2));
      fires.count_down();
      for (int i = 0; i < 100; ++i) std::this_thread::yield();
      if (round % 2 == 1) queue.add(alarm, at(2));
      fire_is_over = true;
    });
    queue.add(alarm, at(1));
    std::thread service([&] { queue.fire_due(at(1)); });
    fires.wait();
    EXPECT_TRUE(queue.cancel(alarm));
    EXPECT_TRUE(fire_is_over);
    EXPECT_EQ(queue.next_deadline(), std::nullopt);
    service.join();
  }
}

TEST(TimerQueue, AFireMayCancelTheTimerThatItHasAddedAgain) {
  TimerQueue queue;
  Alarm alarm;
  alarm.on_fire = [&] {
    queue.add(alarm, at(2));
    EXPECT_TRUE(queue.cancel(alarm)) << "from within: no wait";
  };
  queue.add(alarm, at(1));
  queue.fire_due(at(5));
  EXPECT_EQ(alarm.fired, 1);
  EXPECT_EQ(queue.next_deadline(), std::nullopt);
}

TEST(TimerQueue, CancelOfOneTimerDoesNotWaitForTheFireOfAnother) {
  TimerQueue queue;
  std::latch fires(1);
  std::latch cancelled(1);
  Alarm slow([&] {
    fires.count_down();
    cancelled.wait();
  });
  Alarm other;
  queue.add(slow, at(1));
  queue.add(other, at(2));
  std::thread service([&] { queue.fire_due(at(1)); });
  fires.wait();
  EXPECT_TRUE(queue.cancel(other));
  cancelled.count_down();
  service.join();
}

TEST(TimerQueue, DoesWhatASortedListDoes) {
  std::mt19937 random(11);  // NOLINT: the same every time
  TimerQueue queue;
  std::array<Alarm, 64> alarms;
  std::array<int, 64> deadlines;  // -1: not in the queue
  deadlines.fill(-1);
  int now = 0;
  for (int step = 0; step < 50'000; ++step) {
    const std::size_t who = random() % alarms.size();
    if (random() % 16 == 0) {
      now += static_cast<int>(random() % 50);
      std::array<int, 64> expected{};
      for (std::size_t i = 0; i < alarms.size(); ++i) {
        expected[i] = alarms[i].fired + (deadlines[i] >= 0 && deadlines[i] <= now ? 1 : 0);
        if (deadlines[i] <= now) deadlines[i] = -1;
      }
      queue.fire_due(at(now));
      for (std::size_t i = 0; i < alarms.size(); ++i) ASSERT_EQ(alarms[i].fired, expected[i]);
    } else if (deadlines[who] >= 0) {
      ASSERT_TRUE(queue.cancel(alarms[who]));
      deadlines[who] = -1;
    } else {
      ASSERT_FALSE(queue.cancel(alarms[who]));
      deadlines[who] = now + 1 + static_cast<int>(random() % 200);
      queue.add(alarms[who], at(deadlines[who]));
    }
    int earliest = -1;
    for (const int deadline : deadlines) {
      if (deadline >= 0 && (earliest < 0 || deadline < earliest)) earliest = deadline;
    }
    ASSERT_EQ(queue.next_deadline(), earliest < 0 ? std::nullopt : std::optional(at(earliest)));
  }
}

TEST(TimerQueue, TimersAddedAndCancelledByManyThreadsFireOnceOrNotAtAll) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 2000;
  TimerQueue queue;
  std::atomic<int> left{kThreads};
  std::atomic<int> cancelled{0};
  std::atomic<int> fired{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < kRounds; ++round) {
        Alarm alarm;
        queue.add(alarm, at(round % 7));
        if ((round + i) % 3 == 0) std::this_thread::yield();
        if (queue.cancel(alarm)) {
          EXPECT_EQ(alarm.fired, 0);
          ++cancelled;
        } else {
          EXPECT_EQ(alarm.fired, 1);
          ++fired;
        }
      }
      --left;
    });
  }
  while (left > 0) queue.fire_due(at(7));
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(cancelled + fired, kThreads * kRounds);
}

TEST(TimerQueueDeathTest, ATimerThatWaitsCannotBeAddedAgain) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  TimerQueue queue;
  Alarm alarm;
  queue.add(alarm, at(1));
  EXPECT_DEATH(queue.add(alarm, at(2)), "added twice");
  queue.cancel(alarm);
}

}  // namespace
}  // namespace keyway
