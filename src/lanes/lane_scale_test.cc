// What a lane does costs the same however many wait in it.
#include <memory>

#include <gtest/gtest.h>

#include "lanes/lane.h"
#include "support/scale.h"

namespace keyway {
namespace {

struct NoOwner final : LaneOwner {
  void run_turn(Lane&, Turn&) override {}
};

TEST(LaneScale, WhoIsNextIsFoundAtOnceAmongManyWhoReturn) {
  const auto seconds = [](int count) {
    NoOwner owner;
    Lane lane(owner, "key", 0, {.running = kNoLimit});
    const auto guests = std::make_unique<Waiter[]>(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) lane.enter(guests[static_cast<std::size_t>(i)]);
    for (int i = 0; i < count; ++i) lane.take();
    for (int i = 0; i < count; ++i) lane.give_back();
    for (int i = 0; i < count; ++i) lane.enter_again(guests[static_cast<std::size_t>(i)]);
    const double began = cpu_seconds();
    for (int i = 0; i < count; ++i) {
      const Waiter* next = nullptr;
      lane.of_next([&](const Waiter& waiter) {
        next = &waiter;
        return 0;
      });
      EXPECT_EQ(next, &guests[0]);
    }
    return cpu_seconds() - began;
  };
  expect_cost_stays(seconds, 100, 10'000);
}

}  // namespace
}  // namespace keyway
