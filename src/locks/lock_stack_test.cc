// A lock that is taken while several tasks are on one stack: none of them ends before the wait for the lock does.
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/key_locks.h"
#include "keyway/serial_dispatcher.h"
#include "keyway/testing/sim_scheduler.h"
#include "support/listeners.h"
#include "support/own_process.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

Task<void> nap() { co_await sleep_for(10ms); }

bool is_refused(KeyLocks& locks) {
  try {
    (void)locks.lock("k");
  } catch (const Exception& error) {
    return error.code() == ErrorCode::kWaitCycle;
  }
  return false;
}

// Holds "k" until `other` has ended.
Task<void> hold_until(KeyLocks& locks, TaskHandle<void>& other) {
  const KeyLocks::Guard guard = co_await locks.lock_async("k");
  co_await sleep_for(1ms);
  (void)co_await other;
}

TEST(LockStack, ATaskThatItsSubmitterRunsCannotWaitForALockWhoseHolderWaitsForTheSubmitter) {
  expect_ends([] {
    SimScheduler sim;
    KeyLocks locks;
    GroupPolicy policy{.rejection = RejectionPolicy::kCallerRuns};
    policy.groups["full"] = {.max_concurrency = 1, .queue_threshold = 0};
    GroupExecutor executor(std::move(policy), sim);
    auto fills = executor.submit("full", nap);
    bool refused = false;
    TaskHandle<void> submitter;
    auto holder = executor.submit("h", [&] { return hold_until(locks, submitter); });
    submitter = executor.submit("s", [&]() -> Task<void> {
      co_await sleep_for(2ms);
      (void)executor.submit("full", [&] { refused = is_refused(locks); });
    });
    EXPECT_TRUE(holder.join().ok());
    EXPECT_TRUE(refused);
  });
}

TEST(LockStack, AListenerCannotWaitForALockWhoseHolderWaitsForATaskBelowItOnTheStack) {
  expect_ends([] {
    SimScheduler sim;
    KeyLocks locks;
    const auto listener = std::make_shared<EndListener>();
    GroupExecutor executor({.listener = listener}, sim);
    bool refused = false;
    auto before = executor.submit("f", "before", nap);
    auto cancelled = executor.submit("f", "cancelled", nap);
    TaskHandle<void> ends =
        executor.submit("e", "ends", []() -> Task<void> { co_await sleep_for(2ms); });
    listener->ended = [&](const std::string& id) {
      if (id == "ends") cancelled.cancel();
      if (id == "cancelled") refused = is_refused(locks);
    };
    auto holder = executor.submit("h", "holder", [&] { return hold_until(locks, ends); });
    EXPECT_TRUE(holder.join().ok());
    EXPECT_TRUE(refused);
  });
}

TEST(LockStack, WorkInsideOtherWorkCannotWaitForALockWhoseHolderWaitsForTheOuterWork) {
  expect_ends([] {
    SimScheduler sim;
    KeyLocks locks;
    SerialDispatcher dispatcher({}, sim);
    const KeyLocks::Guard guard = locks.lock("k");
    const Result<bool> refused = dispatcher.run(
        "x", [&] { return *dispatcher.run("x", [&] { return is_refused(locks); }); });
    ASSERT_TRUE(refused.ok());
    EXPECT_TRUE(*refused);
  });
}

}  // namespace
}  // namespace keyway
