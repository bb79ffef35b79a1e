// A returning task that takes the permit of a served lane before the turn of that lane runs.
#include "groups/global_gate.h"

#include <memory>

#include <gtest/gtest.h>

#include "groups/dispatch.h"
#include "keyway/testing/sim_scheduler.h"

namespace keyway {
namespace {

struct ReturnerOf final : GlobalGate::Returner {
  explicit ReturnerOf(Lane& own) : lane(own) {}
  void go_on(Aftermath&) override {}
  Lane& gate_lane() override { return lane; }
  Lane& lane;
};

// A gate with one permit. The lane "light" has a weight of 16, "vip" a guarantee of one permit.
class GlobalGateTest : public ::testing::Test, private LaneOwner {
 protected:
  ~GlobalGateTest() override {
    for (Lane* lane : {&a_, &b_, &light_, &vip_, &returns_}) table_.unpin(*lane);
  }

  static bool enter(GlobalGate& gate, Lane& lane) { return gate.enter(lane); }
  static bool enter_by_shares(GlobalGate& gate, Lane& lane) {
    GlobalGate::Lanes served;
    const bool has_permit = gate.enter_by_shares(lane, served);
    EXPECT_TRUE(served.empty());
    return has_permit;
  }
  static std::uint32_t permits(const Lane& lane) { return GroupState::of(lane).permits; }

  // `busy` has the permit, and its task ends while `first` and `second` stand in line. A returning task takes the permit that
  // `first` gets; the turn of `first` runs afterwards. Returns the lane that gets the permit when the returning task ends.
  template <class Come>
  Lane* next_after_a_returner(GlobalGate& gate, Lane& busy, Lane& first, Lane& second, Come come) {
    EXPECT_TRUE(come(gate, busy));
    EXPECT_FALSE(come(gate, first));
    EXPECT_FALSE(come(gate, second));
    EXPECT_EQ(gate.leave(busy).lane, &first);
    ReturnerOf returner(returns_);
    EXPECT_TRUE(gate.enter_again(returner));
    EXPECT_FALSE(come(gate, first));
    return gate.leave(returns_).lane;
  }

 private:
  void run_turn(Lane&, Turn&) override {}
  std::unique_ptr<LaneExtension> extend(Lane& lane) override {
    return std::make_unique<GroupState>(dispatch_, lane,
                                        GroupLimits{.weight = lane.key() == "light" ? 16 : 1,
                                                    .guaranteed = lane.key() == "vip" ? 1 : 0},
                                        sim_);
  }
  Lane& pin(std::string_view key) { return *table_.pin(key, LaneTable::hash(key), {}); }

  testing::SimScheduler sim_;
  LaneTable table_{*this};
  Dispatch dispatch_{{.global_max_in_flight = 1}, sim_, table_, /*shares=*/true};

 protected:
  Lane& a_ = pin("a");
  Lane& b_ = pin("b");
  Lane& light_ = pin("light");
  Lane& vip_ = pin("vip");
  Lane& returns_ = pin("returns");
};

TEST_F(GlobalGateTest, ALaneWhosePermitAReturnerTookStandsInLineInFront) {
  for (const GateOrder order : {GateOrder::kArrival, GateOrder::kAge}) {
    GlobalGate gate(1, order);
    EXPECT_EQ(next_after_a_returner(gate, light_, a_, b_, enter), &a_);
    EXPECT_TRUE(gate.enter(a_));
    EXPECT_EQ(gate.leave(a_).lane, &b_);
    EXPECT_TRUE(gate.enter(b_));
    EXPECT_EQ(gate.leave(b_).lane, nullptr);
  }
}

TEST_F(GlobalGateTest, BySharesItStandsInFrontOfLanesThatAreEquallyFarOn) {
  GlobalGate gate(1, GateOrder::kShares);
  EXPECT_EQ(next_after_a_returner(gate, light_, a_, b_, enter_by_shares), &a_);
}

// "light" has had a permit, which moves it on by a sixteenth of what the permit that it does not get would move "a" on.
TEST_F(GlobalGateTest, APermitThatAReturnerTookUsesNoShare) {
  GlobalGate gate(1, GateOrder::kShares);
  EXPECT_TRUE(enter_by_shares(gate, light_));
  EXPECT_FALSE(enter_by_shares(gate, a_));
  EXPECT_FALSE(enter_by_shares(gate, light_));
  EXPECT_EQ(gate.leave(light_).lane, &a_);
  ReturnerOf returner(returns_);
  EXPECT_TRUE(gate.enter_again(returner));
  EXPECT_FALSE(enter_by_shares(gate, a_));
  EXPECT_EQ(gate.leave(returns_).lane, &a_);
}

// "vip" is further on than "light", but is below its guarantee again.
TEST_F(GlobalGateTest, APermitThatAReturnerTookDoesNotCountForTheGuarantee) {
  GlobalGate gate(1, GateOrder::kShares);
  GlobalGate::Lanes served;
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(enter_by_shares(gate, vip_));
    gate.turn_over(vip_, served);
    EXPECT_EQ(gate.leave(vip_).lane, nullptr);
  }
  EXPECT_EQ(next_after_a_returner(gate, light_, vip_, light_, enter_by_shares), &vip_);
  EXPECT_EQ(permits(vip_), 1U);
  EXPECT_TRUE(enter_by_shares(gate, vip_));
  gate.turn_over(vip_, served);
  EXPECT_EQ(gate.leave(vip_).lane, &light_);
  EXPECT_EQ(permits(vip_), 0U);
}

// Each of two served lanes has lost its permit, and the limit went down meanwhile.
TEST_F(GlobalGateTest, AReturnerTakesSeveralPermitsIfTheLimitWentDown) {
  GlobalGate gate(2, GateOrder::kArrival);
  EXPECT_TRUE(gate.enter(light_));
  EXPECT_TRUE(gate.enter(vip_));
  EXPECT_FALSE(gate.enter(a_));
  EXPECT_FALSE(gate.enter(b_));
  EXPECT_EQ(gate.leave(light_).lane, &a_);
  EXPECT_EQ(gate.leave(vip_).lane, &b_);
  EXPECT_TRUE(gate.set_limit(1).lanes.empty());
  ReturnerOf returner(returns_);
  EXPECT_TRUE(gate.enter_again(returner));
  EXPECT_EQ(gate.use().in_flight, 1U);
  EXPECT_FALSE(gate.enter(b_));
  EXPECT_FALSE(gate.enter(a_));
  EXPECT_EQ(gate.leave(returns_).lane, &a_);
  EXPECT_TRUE(gate.enter(a_));
  EXPECT_EQ(gate.leave(a_).lane, &b_);
  EXPECT_TRUE(gate.enter(b_));
  EXPECT_EQ(gate.leave(b_).lane, nullptr);
  EXPECT_EQ(gate.use().in_flight, 0U);
}

}  // namespace
}  // namespace keyway
