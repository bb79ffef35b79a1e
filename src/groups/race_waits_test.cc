// Waits in the branches of when_any() and with_timeout(): such a wait ends when another branch does.
#include <string>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/testing/sim_scheduler.h"
#include "keyway/when_any.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

constexpr auto answer = [] { return 42; };

Task<int> value_of(TaskHandle<int>& handle) { co_return (co_await handle).value(); }

// Two serial groups. The first task of "a" awaits the second one of "b", which stands behind the first one there; that
// does `wait_for_a2`, whose await of the second task of "a" would close a cycle.
class RaceWaits : public ::testing::Test {
 protected:
  template <class Wait>
  GroupResult<std::string> closing_the_cycle(Wait wait_for_a2) {
    auto a1 = executor_.submit("a", "1", [&]() -> Task<int> { co_return co_await value_of(b2_); });
    auto b1 = executor_.submit("b", "1", [&]() -> Task<std::string> {
      try {
        co_return co_await wait_for_a2();
      } catch (const TimeoutError&) {
        co_return "timed out";
      } catch (const Exception& exception) {
        EXPECT_EQ(exception.code(), ErrorCode::kWaitCycle) << exception.what();
        co_return "refused";
      }
    });
    a2_ = executor_.submit("a", "2", answer);
    a3_ = executor_.submit("a", "3", answer);
    b2_ = executor_.submit("b", "2", answer);
    auto ended = b1.join();
    EXPECT_EQ(a1.join().value(), 42);
    EXPECT_EQ(a2_.join().value(), 42);
    return ended;
  }

  Task<std::string> await_a2() {
    (void)co_await value_of(a2_);
    co_return "has its value";
  }

  SimScheduler sim_;
  GroupExecutor executor_{{}, sim_};
  TaskHandle<int> a2_;
  TaskHandle<int> a3_;
  TaskHandle<int> b2_;
};

TEST_F(RaceWaits, AnAwaitThatCouldNeverEndIsRefused) {
  EXPECT_EQ(closing_the_cycle([&] { return await_a2(); }).value(), "refused");
}

TEST_F(RaceWaits, ATimeoutEndsIt) {
  const TimePoint start = sim_.now();
  EXPECT_EQ(closing_the_cycle([&] { return with_timeout(10ms, await_a2()); }).value(), "timed out");
  EXPECT_EQ(sim_.now() - start, 10ms);
}

TEST_F(RaceWaits, ATimeoutAroundBranchesEndsThemAll) {
  const auto both = [this]() -> Task<std::string> {
    (void)co_await when_all(await_a2(), value_of(a3_));
    co_return "have it";
  };
  EXPECT_EQ(closing_the_cycle([&] { return with_timeout(10ms, both()); }).value(), "timed out");
}

TEST_F(RaceWaits, AnotherBranchThatEndsEndsIt) {
  auto c = executor_.submit("c", "1", answer);
  const auto either = [&]() -> Task<std::string> {
    const auto first = co_await when_any(await_a2(), value_of(c));
    co_return "branch " + std::to_string(first.index);
  };
  EXPECT_EQ(closing_the_cycle(either).value(), "branch 1");
}

TEST_F(RaceWaits, IsRefusedIfNoBranchCanEnd) {
  const auto either = [&]() -> Task<std::string> {
    (void)co_await when_any(await_a2(), value_of(a3_));
    co_return "has a value";
  };
  EXPECT_EQ(closing_the_cycle(either).value(), "refused");
}

TEST_F(RaceWaits, ABlockingWaitDoesNotHearOfATimeout) {
  const auto block = [this]() -> Task<std::string> {
    (void)a2_.join();
    co_return "has it";
  };
  EXPECT_EQ(closing_the_cycle([&] { return with_timeout(10ms, block()); }).value(), "refused");
}

}  // namespace
}  // namespace keyway
