// Rates: which lane waits for a token, and what ends its wait.
#include "groups/dispatch.h"

#include <memory>

#include <gtest/gtest.h>

#include "groups/group_state.h"
#include "keyway/testing/sim_scheduler.h"
#include "lanes/lane_table.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;

// A lane whose group may start one task per second. Counts the turns that are posted for it.
class RatedLane : public ::testing::Test, public LaneOwner {
 protected:
  ~RatedLane() override { table_.unpin(lane_); }

  void run_turn(Lane&, Turn&) override { ++turns_; }
  std::unique_ptr<LaneExtension> extend(Lane& lane) override {
    const GroupLimits limits{.rate = RateLimit{.per_second = 1, .burst = 1}};
    return std::make_unique<GroupState>(dispatch_, lane, limits, sim_);
  }
  Dispatch::Admitted admit() {
    Aftermath aftermath(sim_);
    return dispatch_.admit(lane_, &GroupState::of(lane_), aftermath);
  }
  void give_token_back() {
    Aftermath aftermath(sim_);
    dispatch_.give_token_back(lane_, aftermath);
  }

  testing::SimScheduler sim_;
  LaneTable table_{*this};
  Dispatch dispatch_{{}, sim_, table_, /*shares=*/false};
  Lane& lane_ = *table_.pin("g", LaneTable::hash("g"), {});
  int turns_ = 0;
};

TEST_F(RatedLane, GetsItsTurnWhenTheNextTokenComes) {
  EXPECT_EQ(admit(), Dispatch::Admitted::kWithToken);
  EXPECT_EQ(admit(), Dispatch::Admitted::kNo);
  sim_.advance(999ms);
  EXPECT_EQ(turns_, 0);
  sim_.advance(1ms);
  EXPECT_EQ(turns_, 1);
}

// A worker that took a token finds that the task was cancelled. Meanwhile another one came with a turn, and found none.
TEST_F(RatedLane, GetsItsTurnAtOnceWhenATokenIsGivenBack) {
  EXPECT_EQ(admit(), Dispatch::Admitted::kWithToken);
  EXPECT_EQ(admit(), Dispatch::Admitted::kNo);
  give_token_back();
  sim_.run_ready();
  EXPECT_EQ(turns_, 1);
  EXPECT_EQ(admit(), Dispatch::Admitted::kWithToken);
  sim_.advance(1h);
  EXPECT_EQ(turns_, 1) << "its timer fired, too";
}

TEST_F(RatedLane, ThatDoesNotWaitGetsNoTurnWhenATokenIsGivenBack) {
  EXPECT_EQ(admit(), Dispatch::Admitted::kWithToken);
  give_token_back();
  sim_.run_until_idle();
  EXPECT_EQ(turns_, 0);
}

}  // namespace
}  // namespace keyway
