// The debug log: what it is told, and what it may do.
#include <algorithm>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/key_locks.h"
#include "keyway/testing/sim_scheduler.h"
#include "support/own_process.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

TEST(KeyLocks, LogWhatHappensToEachLock) {
  std::vector<std::string> lines;
  KeyLocks locks({.debug_log = [&](std::string_view line) { lines.emplace_back(line); }});
  locks.with_lock("project-1", [] {});
  EXPECT_EQ(lines, (std::vector<std::string>{
                       "Creating new lock for key: project-1",
                       "Acquiring lock for key: project-1",
                       "Lock acquired for key: project-1",
                       "Releasing lock for key: project-1 (signal: onComplete)",
                       "Lock released for key: project-1",
                   }));
  lines.clear();
  EXPECT_THROW(locks.with_lock("p", [] { throw 1; }), int);
  EXPECT_THROW(locks.with_lock("p", [] { throw CancelledError(); }), CancelledError);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "Releasing lock for key: p (signal: onError)"),
            1);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "Releasing lock for key: p (signal: cancel)"),
            1);
  lines.clear();
  {
    const KeyLocks::Guard outer = locks.lock("q");
    const KeyLocks::Guard inner = locks.lock("q");
  }
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "Creating new lock for key: q"), 1);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "Lock released for key: q"), 2);
}

TEST(KeyLocks, GoOnIfTheirLogThrows) {
  KeyLocks locks({.debug_log = [](std::string_view) { throw std::runtime_error("disk full"); }});
  EXPECT_EQ(locks.with_lock("a", [] { return 1; }), 1);
}

// A task releases "k", for which another task waits that holds "x". The log of the release calls `call`.
void expect_release_ends(const std::function<void(KeyLocks&)>& call) {
  expect_ends([&] {
    SimScheduler sim;
    KeyLocks* self = nullptr;
    bool called = false;
    KeyLocks locks({.debug_log = [&](std::string_view line) {
      if (line == "Releasing lock for key: k" && !std::exchange(called, true)) call(*self);
    }});
    self = &locks;
    GroupExecutor executor({}, sim);
    auto releases = executor.submit("a", [&] {
      const KeyLocks::Guard guard = locks.lock("k");
      auto waits = executor.submit("b", [&] {
        const KeyLocks::Guard held = locks.lock("x");
        const KeyLocks::Guard wanted = locks.lock("k");
      });
      EXPECT_FALSE(waits.join_for(1s).ok());
    });
    sim.run_until_idle();
    EXPECT_TRUE(releases.join().ok());
    EXPECT_TRUE(called);
    EXPECT_EQ(locks.active_lock_count(), 0U);
  });
}

TEST(KeyLocks, LogOfAReleaseMayLockTheKeyAgain) {
  expect_release_ends([](KeyLocks& locks) { const KeyLocks::Guard nested = locks.lock("k"); });
}

TEST(KeyLocks, LogOfAReleaseHasAnEndlessWaitRefused) {
  expect_release_ends([](KeyLocks& locks) {
    std::optional<ErrorCode> refused;
    try {
      const KeyLocks::Guard guard = locks.lock("x");
    } catch (const Exception& exception) {
      refused = exception.code();
    }
    EXPECT_EQ(refused, ErrorCode::kWaitCycle);
  });
}

}  // namespace
}  // namespace keyway
