// What a lane does costs the same however many wait in it.
#include <cstdint>
#include <memory>

#include <gtest/gtest.h>

#include "lanes/lane.h"
#include "support/scale.h"

namespace keyway {
namespace {

struct Guest {
  Waiter waiter;
  LaneRank rank;
};

// Counts how many waiters the lane looks at.
struct CountingOwner final : LaneOwner {
  void run_turn(Lane&, Turn&) override {}
  LaneRank rank_of(const Waiter& waiter) const override {
    ++looks;
    return reinterpret_cast<const Guest&>(waiter).rank;
  }
  mutable std::uint64_t looks = 0;
};

// The looks for each of `count` plain waiters that enter behind `first`, are taken and finish, in a lane that could run all.
double looks_for_each(int count, LaneRank first) {
  CountingOwner owner;
  Lane lane(owner, "key", 0, {.running = kNoLimit, .waiting = 0});
  const auto guests = std::make_unique<Guest[]>(static_cast<std::size_t>(count) + 1);
  guests[0].rank = first;
  lane.enter_ranked(guests[0].waiter);
  for (int i = 1; i <= count; ++i) {
    EXPECT_NE(lane.enter(guests[static_cast<std::size_t>(i)].waiter), Lane::Entered::kFull);
    EXPECT_EQ(lane.could_run(), static_cast<std::uint64_t>(i) + 1);
  }
  for (int i = count; i >= 0; --i) {
    const LaneTake taken = lane.take();
    EXPECT_EQ(lane.could_run(), static_cast<std::uint64_t>(i) + 1);
    lane.finish(LaneOutcome::kSucceeded, /*go_on=*/false, taken.units);
  }
  EXPECT_TRUE(lane.idle());
  return static_cast<double>(owner.looks) / count;
}

TEST(LaneScale, ALaneWithAPriorityDoesNotLookAtAllWhoWait) {
  const LaneRank rank{.priority = 1};
  EXPECT_LE(looks_for_each(2'000, rank), 2 * looks_for_each(100, rank));
}

TEST(LaneScale, ALaneWithACostDoesNotLookAtAllWhoCouldRun) {
  const LaneRank rank{.cost = 2};
  EXPECT_LE(looks_for_each(2'000, rank), 2 * looks_for_each(100, rank));
}

TEST(LaneScale, WhoIsNextIsFoundAtOnceAmongManyWhoReturn) {
  const auto seconds = [](int count) {
    CountingOwner owner;
    Lane lane(owner, "key", 0, {.running = kNoLimit});
    const auto guests = std::make_unique<Guest[]>(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) lane.enter(guests[static_cast<std::size_t>(i)].waiter);
    for (int i = 0; i < count; ++i) lane.take();
    for (int i = 0; i < count; ++i) lane.give_back();
    for (int i = 0; i < count; ++i) lane.enter_again(guests[static_cast<std::size_t>(i)].waiter);
    const double began = cpu_seconds();
    for (int i = 0; i < count; ++i) {
      const Waiter* next = nullptr;
      lane.of_next([&](const Waiter& waiter) {
        next = &waiter;
        return 0;
      });
      EXPECT_EQ(next, &guests[0].waiter);
    }
    return cpu_seconds() - began;
  };
  expect_cost_stays(seconds, 100, 10'000);
}

}  // namespace
}  // namespace keyway
