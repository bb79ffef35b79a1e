// The lines of locks, as the checks of waits see them.
#include <gtest/gtest.h>

#include "explore/group_scenario.h"
#include "keyway/key_locks.h"
#include "keyway/task.h"

namespace keyway::explore {
namespace {

// A thread holds the lock and joins a task, which wants the lock. A coroutine stands in line ahead of the task, and is
// cancelled while the wait of the task is checked.
class LeavesTheLineInASearch final : public GroupScenario {
 public:
  LeavesTheLineInASearch() : GroupScenario(2, {}) {}
  void client(int number) override {
    if (number == 1) {
      stands_in_line_.wait("the coroutine");
      ahead_.cancel();
      cancelled_.set();
      return;
    }
    KeyLocks::Guard guard = locks_.lock("k");
    TaskHandle<bool> task;
    {
      const Uninterrupted setup;
      ahead_ = executor().submit("ahead", [this]() -> Task<void> {
        const KeyLocks::Guard mine = co_await locks_.lock_async("k");
      });
      scheduler().post(in_line_);
      task = executor().submit("wants", [this] {
        const bool refused = is_refused([this] { const KeyLocks::Guard mine = locks_.lock("k"); });
        cancelled_.wait("the end of the cancellation");
        return refused;
      });
    }
    bool refused = false;
    const bool caller_refused = is_refused([&] { refused = task.join().value(); });
    require(refused || caller_refused, "neither of the waits of a cycle was refused");
    guard.release();
    require(!caller_refused || !task.join().value(), "both waits of a cycle were refused");
  }

 private:
  // Keeps a thread: the coroutine must not go on before the stop request is over, because it would wait for that inside the
  // standard library.
  struct InLine final : Runnable {
    explicit InLine(LeavesTheLineInASearch& its) : of(its) {}
    void run(Turn&) override {
      of.stands_in_line_.set();
      of.cancelled_.wait("the end of the cancellation");
    }
    LeavesTheLineInASearch& of;
  };
  template <class Call>
  static bool is_refused(Call call) {
    try {
      call();
      return false;
    } catch (const Exception& error) {
      require(error.code() == ErrorCode::kWaitCycle, "refused for another reason");
      return true;
    }
  }

  KeyLocks locks_;
  Event stands_in_line_, cancelled_;
  InLine in_line_{*this};
  TaskHandle<void> ahead_;
};
TEST(ExploreLockLines, AWaiterLeavesTheLineWhileOneBehindItIsChecked) {
  expect_holds<LeavesTheLineInASearch>("WaitGraph", {.threads = 4});
}

}  // namespace
}  // namespace keyway::explore
