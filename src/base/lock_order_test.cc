#include "base/lock_order.h"

#include <gtest/gtest.h>

#include "base/mutex.h"
#include "base/spin_lock.h"

namespace keyway {
namespace {

TEST(LockOrder, LocksMayBeTakenInTheOrderOfTheirRanks) {
  Mutex<LockRank::kAdmission> admission;
  SpinLock<LockRank::kLaneDispatch> dispatch;
  SpinLock<LockRank::kLaneIntake> intake;
  for (int round = 0; round < 2; ++round) {
    MutexLock first(admission);
    SpinGuard second(dispatch);
    SpinGuard third(intake);
  }
}

TEST(LockOrder, ALockReleasedEarlyDoesNotCountAnyMore) {
  SpinLock<LockRank::kLaneDispatch> dispatch;
  SpinLock<LockRank::kLaneIntake> intake;
  dispatch.lock();
  intake.lock();
  dispatch.unlock();
  intake.unlock();
  SpinGuard again(dispatch);
}

TEST(LockOrder, LocksUnderWhichUserCodeRunsHaveNoOrderAmongEachOther) {
  Mutex<LockRank::kDatabase> one;
  Mutex<LockRank::kDatabase> other;
  Mutex<LockRank::kDeadLetterLog> log;
  MutexLock first(one);
  MutexLock second(other);
  MutexLock third(log);
}

#if defined(KEYWAY_CHECK_LOCK_RANKS)

TEST(LockOrderDeathTest, TheWrongOrderEndsTheProgramAndNamesBothLocks) {
  SpinLock<LockRank::kLaneDispatch> dispatch;
  SpinLock<LockRank::kLaneIntake> intake;
  const auto wrong_order = [&] {
    SpinGuard first(intake);
    SpinGuard second(dispatch);
  };
  EXPECT_DEATH(wrong_order(), "locks Lane::dispatch_ .* while it holds Lane::intake_");
}

TEST(LockOrderDeathTest, TwoLocksOfOneRankAreNotHeldTogether) {
  Mutex<> one;
  Mutex<> other;
  const auto both = [&] {
    MutexLock first(one);
    MutexLock second(other);
  };
  EXPECT_DEATH(both(), "locks a leaf lock .* while it holds a leaf lock");
}

TEST(LockOrderDeathTest, ALockTakenByTryLockCountsAsHeld) {
  SpinLock<LockRank::kLaneDispatch> dispatch;
  SpinLock<LockRank::kLaneIntake> intake;
  const auto wrong_order = [&]() KEYWAY_NO_THREAD_SAFETY_ANALYSIS {
    ASSERT_TRUE(intake.try_lock());
    // It does not wait, so it may be tried in any order.
    ASSERT_TRUE(dispatch.try_lock());
    dispatch.unlock();
    dispatch.lock();
  };
  EXPECT_DEATH(wrong_order(), "locks Lane::dispatch_ .* while it holds Lane::intake_");
}

TEST(LockOrderDeathTest, AWaitForAConditionUnderAnotherLockEndsTheProgram) {
  Mutex<LockRank::kAdmission> admission;
  Mutex<LockRank::kTimerQueue> timers;
  CondVar condition;
  const auto waits = [&] {
    MutexLock first(admission);
    MutexLock second(timers);
    condition.wait(timers);
  };
  EXPECT_DEATH(waits(), "waits for a condition of TimerQueue's mutex .* holds Admission's mutex");
}

#endif

}  // namespace
}  // namespace keyway
