// The explorer finds planted faults of every kind, and replays them.
#include "explore/explorer.h"

#include <chrono>

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include "base/futex.h"
#include "base/mutex.h"
#include "base/spin_lock.h"
#include "explore/explorations.h"
#include "keyway/detail/atomic.h"
#include "keyway/detail/check.h"

namespace keyway::explore {
namespace {

using keyway::detail::Atomic;

class LostUpdate final : public Scenario {
  void run(int) override { count_.store(count_.load() + 1); }
  void check() override { require(count_.load() == 2, "an update was lost"); }
  Atomic<int> count_{0};
};
TEST(Explorer, FindsALostUpdate) { expect_finds<LostUpdate>(FailureKind::kRequirement); }

class AtomicUpdate final : public Scenario {
  void run(int) override { count_.fetch_add(1); }
  void check() override { require(count_.load() == 3, "an update was lost"); }
  Atomic<int> count_{0};
};
TEST(Explorer, FindsNothingWhereNothingIs) {
  expect_holds<AtomicUpdate>("explorer", {.threads = 3});
}

class TwoOrders final : public Scenario {
  void run(int thread) override {
    if (thread == 0) {
      SpinGuard first(one_);
      MutexLock second(other_);
    } else {
      MutexLock first(other_);
      SpinGuard second(one_);
    }
  }
  SpinLock<LockRank::kLaneDispatch> one_;
  Mutex<LockRank::kTimerQueue> other_;
};
TEST(Explorer, FindsADeadlockAndSaysWhatEachThreadWaitsFor) {
  const auto strategy = exhaustive(2);
  const Outcome outcome = explore<TwoOrders>({}, *strategy, 1000);
  EXPECT_EQ(outcome.failure, FailureKind::kDeadlock);
  EXPECT_NE(outcome.message.find("thread 0 waits for TimerQueue's mutex"), std::string::npos)
      << outcome.message;
  EXPECT_NE(outcome.message.find("thread 1 waits for Lane::dispatch_"), std::string::npos)
      << outcome.message;
}

class LostWakeUp final : public Scenario {
  void run(int thread) override {
    if (thread == 0) {
      if (word_.load() == 0) {
        asleep_.store(1);  // too late: the waker may have looked already
        futex_wait(asleep_, 1, std::nullopt);
      }
    } else {
      word_.store(1);
      if (asleep_.load() == 1) {
        asleep_.store(0);
        futex_wake_one(asleep_);
      }
    }
  }
  Atomic<std::uint32_t> word_{0};
  Atomic<std::uint32_t> asleep_{0};
};
TEST(Explorer, FindsALostWakeUp) { expect_finds<LostWakeUp>(FailureKind::kDeadlock); }

class MissedNotify final : public Scenario {
  void run(int thread) override {
    if (thread == 1) {
      ready_.store(true);
      changed_.notify_one();
    } else if (!ready_.load()) {
      MutexLock lock(mutex_);
      changed_.wait(mutex_);
    }
  }
  Atomic<bool> ready_{false};
  Mutex<> mutex_;
  CondVar changed_;
};
TEST(Explorer, FindsANotifyBeforeItsWait) { expect_finds<MissedNotify>(FailureKind::kDeadlock); }

template <std::memory_order kStore>
class Published final : public Scenario {
  void run(int thread) override {
    if (thread == 0) {
      data_.write(42);
      ready_.store(true, kStore);
    } else if (ready_.load(std::memory_order_acquire)) {
      require(data_.read() == 42, "a stale value");
    }
  }
  Data<int> data_;
  Atomic<bool> ready_{false};
};
TEST(Explorer, FindsAMemoryOrderThatIsTooWeak) {
  expect_finds<Published<std::memory_order_relaxed>>(FailureKind::kRace);
  expect_holds<Published<std::memory_order_release>>("explorer");
}

class NeverEnds final : public Scenario {
  void run(int thread) override {
    while (thread == 0 && !stopped_.load()) cpu_relax();
  }
  Atomic<bool> stopped_{false};
};
TEST(Explorer, FindsALoopThatNeverEnds) { expect_finds<NeverEnds>(FailureKind::kEndless); }

class Crashes final : public Scenario {
  void run(int thread) override {
    if (thread == 0) count_.store(1);
    if (thread == 1) KEYWAY_CHECK(count_.load() == 0, "the other was first");
  }
  Atomic<int> count_{0};
};
TEST(Explorer, KnowsTheScheduleOfACrash) { expect_finds<Crashes>(FailureKind::kCrash); }

class TimesOut final : public Scenario {
  void run(int thread) override {
    if (thread == 0) {
      const bool woken = futex_wait(word_, 0, now() + std::chrono::seconds(1));
      require(woken || now() >= TimePoint(std::chrono::hours(1) + std::chrono::seconds(1)),
              "time stood still");
    }
  }
  using TimePoint = std::chrono::steady_clock::time_point;
  Atomic<std::uint32_t> word_{0};
};
TEST(Explorer, AWaitWithADeadlineEndsWhenNothingElseCanRun) { expect_holds<TimesOut>("explorer"); }

// Three events in a certain order, in the middle of others: depth 3.
class Deep final : public Scenario {
  void run(int thread) override {
    if (thread == 0) {
      for (int i = 0; i < 10; ++i) step_.load();
      step_.store(1);
      if (step_.load() == 2) require(false, "found");
    } else {
      for (int i = 0; i < 10; ++i) step_.load();
      if (step_.load() == 1) step_.store(2);
    }
  }
  Atomic<int> step_{0};
};
TEST(Explorer, EveryStrategyFindsADeepFault) {
  std::unique_ptr<Strategy> strategies[] = {exhaustive(2), pct(2, 1), pct(3, 1), uniform(1)};
  for (const auto& strategy : strategies) {
    const Outcome outcome = explore<Deep>({}, *strategy, 100'000);
    EXPECT_EQ(outcome.failure, FailureKind::kRequirement);
    EXPECT_EQ(explore<Deep>({}, *replay(outcome.schedule), 1).failure, FailureKind::kRequirement);
  }
}

// Every other execution is shorter.
class DoesNotRepeat final : public Scenario {
 public:
  DoesNotRepeat() : is_short_(made_++ % 2 == 1) {}
  void run(int thread) override {
    if (thread == 1 && is_short_) return;
    for (int i = 0; i < 3; ++i) word_.load();
  }

 private:
  static inline int made_ = 0;
  const bool is_short_;
  Atomic<int> word_{0};
};
TEST(Explorer, AScenarioThatDoesNotRepeatItselfFailsItsTest) {
  testing::TestPartResultArray failures;
  {
    const testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &failures);
    expect_holds<DoesNotRepeat>("explorer");
  }
  ASSERT_GT(failures.size(), 0);
  EXPECT_NE(std::string(failures.GetTestPartResult(0).message()).find("did not repeat"),
            std::string::npos);
}

// A replay of code that has changed makes the switches that are still possible, and says how many.
TEST(Explorer, AReplayCountsTheDeviationsItFollowed) {
  EXPECT_EQ(explore<LostUpdate>({}, *replay("0:1"), 1).followed, 1U);
  EXPECT_EQ(explore<LostUpdate>({}, *replay("0:1,500:0"), 1).followed, 1U);
  EXPECT_EQ(explore<LostUpdate>({}, *replay("-"), 1).followed, 0U);
}

TEST(Explorer, ASchedulesTextIsReadAsItWasWritten) {
  const Deviation deviations[] = {{3, 1}, {12, 0}};
  const std::string text = to_string(deviations, 2);
  EXPECT_EQ(text, "3:1,12:0");
  const std::vector<Deviation> read = parse_schedule(text);
  ASSERT_EQ(read.size(), 2U);
  EXPECT_EQ(read[1].choice, 12U);
  EXPECT_EQ(read[1].thread, 0U);
  EXPECT_TRUE(parse_schedule("-").empty());
}

}  // namespace
}  // namespace keyway::explore
