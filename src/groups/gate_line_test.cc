#include "groups/gate_line.h"

#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "groups/dispatch.h"
#include "keyway/testing/sim_scheduler.h"

namespace keyway {
namespace {

constexpr std::uint32_t kLimit = 4;

// The lanes "light" and "heavy", whose weights are 1 and 3, and "vip", which has a guarantee of one.
class GateLineByShares : public ::testing::Test, private LaneOwner {
 protected:
  ~GateLineByShares() override {
    table_.unpin(light_);
    table_.unpin(heavy_);
    table_.unpin(vip_);
  }
  // Serves the first lane. Its turn has run before the next one is served, unless it is `late`.
  void serve(const Lane* late = nullptr) {
    Lane& lane = line_.pop();
    order_ += lane.key()[0];
    if (&lane != late) line_.push(lane, 0, kLimit);
  }
  void push(Lane& lane) { line_.push(lane, 0, kLimit); }

 private:
  void run_turn(Lane&, Turn&) override {}
  std::unique_ptr<LaneExtension> extend(Lane& lane) override {
    return std::make_unique<GroupState>(dispatch_, lane,
                                        GroupLimits{.weight = lane.key() == "heavy" ? 3 : 1,
                                                    .guaranteed = lane.key() == "vip" ? 1 : 0},
                                        sim_);
  }

  testing::SimScheduler sim_;
  LaneTable table_{*this};
  Dispatch dispatch_{{.global_max_in_flight = kLimit}, sim_, table_, /*shares=*/true};

 protected:
  GateLine line_{GateOrder::kShares};
  Lane& light_ = *table_.pin("light", LaneTable::hash("light"), {});
  Lane& heavy_ = *table_.pin("heavy", LaneTable::hash("heavy"), {});
  Lane& vip_ = *table_.pin("vip", LaneTable::hash("vip"), {});
  std::string order_;
};

TEST_F(GateLineByShares, ServesLanesByTheirWeights) {
  push(light_);
  push(heavy_);
  for (int i = 0; i < 8; ++i) serve();
  EXPECT_EQ(order_, "lhhhlhhh");
}

TEST_F(GateLineByShares, ALaneDoesNotLoseItsShareWhileItsTurnIsOnItsWay) {
  push(light_);
  push(heavy_);
  serve();
  serve(/*late=*/&heavy_);
  serve();  // nobody else is in line
  push(heavy_);
  for (int i = 0; i < 9; ++i) serve();
  EXPECT_EQ(order_, "lhlhhhhhlhhh");
}

TEST_F(GateLineByShares, ALaneThatIsComingHoldsBackThoseWithALaterPlace) {
  push(light_);
  push(heavy_);
  serve();
  serve(/*late=*/&heavy_);
  EXPECT_FALSE(line_.can_serve()) << "heavy is coming, and is less far on";
  line_.not_coming(heavy_);
  EXPECT_TRUE(line_.can_serve());
  push(heavy_);
  EXPECT_TRUE(line_.can_serve());
}

TEST_F(GateLineByShares, LanesThatAreEquallyFarOnDoNotWaitForEachOther) {
  push(light_);
  push(heavy_);
  serve(/*late=*/&light_);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(line_.can_serve());
    serve();
  }
  EXPECT_TRUE(line_.can_serve()) << "one permit of light is three of heavy";
  serve();
  EXPECT_FALSE(line_.can_serve());
  EXPECT_EQ(order_, "lhhhh");
}

TEST_F(GateLineByShares, ALaneBelowItsGuaranteeIsAwaitedWhateverItsShare) {
  push(light_);
  push(vip_);
  serve(/*late=*/&light_);
  for (int i = 0; i < 5; ++i) serve(/*late=*/i < 4 ? nullptr : &vip_);
  push(light_);
  EXPECT_FALSE(line_.can_serve()) << "vip is coming, and has less than it was guaranteed";
  GroupState::of(vip_).permits = 1;
  line_.permits_changed(vip_);
  EXPECT_TRUE(line_.can_serve());
}

TEST_F(GateLineByShares, ALaneThatWasAwayDoesNotCatchUp) {
  push(light_);
  push(heavy_);
  serve();
  serve(/*late=*/&heavy_);
  for (std::uint32_t i = 0; i <= kLimit; ++i) serve();
  push(heavy_);
  order_.clear();
  for (int i = 0; i < 8; ++i) serve();
  EXPECT_EQ(order_, "hhhlhhhl");
}

}  // namespace
}  // namespace keyway
