// GlobalGate by itself: no more permits are out than the limit, and every lane in line is served.
#include <array>
#include <deque>
#include <memory>
#include <optional>

#include <gtest/gtest.h>

#include "explore/explorations.h"
#include "explore/explored_scheduler.h"
#include "groups/dispatch.h"
#include "groups/global_gate.h"

namespace keyway::explore {
namespace {

template <GateOrder kOrder>
class GateScenario : public Scenario, public LaneOwner {
 public:
  void run_turn(Lane&, Turn&) override {}
  void check() override {
    const GlobalGate::Use use = gate_.use();
    require(use.in_flight == 0 && use.in_line == 0, "a permit or a lane in line is left");
    require(served_ == expected_, "a lane was not served");
  }

 protected:
  explicit GateScenario(int expected) : expected_(expected) {}

  // A turn of the lane: runs if it has a permit, or stands in line.
  void come(Lane& lane) {
    if (gate_.enter(lane)) use(lane);
  }
  void use(Lane& lane) {
    pass();
    const GlobalGate::Next next = gate_.leave(lane);
    post(next.lane);
    tell(next.returner);
  }
  void pass() {
    require(++in_flight_ <= most_, "more permits are out than the limit allows");
    yield();
    --in_flight_;
    ++served_;
    changed();
  }
  virtual void tell(GlobalGate::Returner* returner) {
    require(returner == nullptr, "a permit for a returner that does not exist");
  }
  void post(Lane* lane) {
    if (lane == nullptr) return;
    posted_.push_back(lane);
    changed();
  }
  // Serves the lanes that come out of the gate.
  void work() {
    while (true) {
      wait_until("a turn", [this] { return !posted_.empty() || served_ == expected_; });
      if (posted_.empty()) return;
      Lane* lane = posted_.front();
      posted_.pop_front();
      come(*lane);
    }
  }

  GlobalGate gate_{1, kOrder};
  std::array<Lane, 4> lanes_{Lane{*this, "a", 1, {}}, Lane{*this, "b", 2, {}},
                             Lane{*this, "c", 3, {}}, Lane{*this, "d", 4, {}}};
  int most_ = 1;

 private:
  const int expected_;
  int in_flight_ = 0;
  int served_ = 0;
  std::deque<Lane*> posted_;
};

template <GateOrder kOrder, int kThreads>
class EnterAgainstLeave final : public GateScenario<kOrder> {
 public:
  EnterAgainstLeave() : GateScenario<kOrder>(kThreads) {}
  void run(int thread) override {
    this->come(this->lanes_[static_cast<std::size_t>(thread)]);
    this->work();
  }
};
TEST(ExploreGate, EnterAgainstLeaveByArrival) {
  expect_holds<EnterAgainstLeave<GateOrder::kArrival, 3>>("GlobalGate", {.threads = 3});
}
TEST(ExploreGate, EnterAgainstLeaveByAge) {
  expect_holds<EnterAgainstLeave<GateOrder::kAge, 3>>("GlobalGate", {.threads = 3});
}

template <GateOrder kOrder>
class LimitChanges final : public GateScenario<kOrder> {
 public:
  LimitChanges() : GateScenario<kOrder>(2) { this->most_ = 2; }
  void run(int thread) override {
    if (thread < 2) {
      this->come(this->lanes_[static_cast<std::size_t>(thread)]);
    } else {
      for (const std::uint32_t limit : {2U, 1U}) {
        const GlobalGate::Served served = this->gate_.set_limit(limit);
        for (Lane* lane : served.lanes) this->post(lane);
      }
    }
    this->work();
  }
};
TEST(ExploreGate, SetLimitAgainstEnterAndLeaveByArrival) {
  expect_holds<LimitChanges<GateOrder::kArrival>>("GlobalGate", {.threads = 3});
}
TEST(ExploreGate, SetLimitAgainstEnterAndLeaveByAge) {
  expect_holds<LimitChanges<GateOrder::kAge>>("GlobalGate", {.threads = 3});
}

struct ReturnerOf final : GlobalGate::Returner {
  explicit ReturnerOf(Lane& own) : lane(own) {}
  void go_on(Aftermath&) override {}  // the scenario tells it itself
  Lane& gate_lane() override { return lane; }
  Lane& lane;
  bool went_on = false;
  bool over = false;
};

// A task that gave its permit back comes again, in front of all lanes.
template <GateOrder kOrder>
class Returns final : public GateScenario<kOrder> {
 public:
  Returns() : GateScenario<kOrder>(3) { this->most_ = 2; }
  void run(int thread) override {
    if (thread < 2) {
      this->come(this->lanes_[static_cast<std::size_t>(thread)]);
    } else {
      if (!this->gate_.enter_again(one_)) {
        wait_until("the permit", [this] { return one_.went_on; });
      }
      require(!std::exchange(one_.over, true), "told twice");
      this->run_with_permit();
    }
    this->work();
  }

 private:
  void tell(GlobalGate::Returner* returner) override {
    if (returner == nullptr) return;
    require(returner == &one_ && !one_.went_on, "told twice");
    one_.went_on = true;
    changed();
  }
  void run_with_permit() { this->use(this->lanes_[2]); }
  ReturnerOf one_{this->lanes_[2]};
};
TEST(ExploreGate, AReturnerAgainstEnterAndLeaveByArrival) {
  expect_holds<Returns<GateOrder::kArrival>>("GlobalGate", {.threads = 3});
}
TEST(ExploreGate, AReturnerAgainstEnterAndLeaveByAge) {
  expect_holds<Returns<GateOrder::kAge>>("GlobalGate", {.threads = 3});
}

// The lane in line is served while its thread is blocked: the returner has to take its permit. The thread goes on when
// the returner is over.
template <GateOrder kOrder>
class ReturnsWithoutThread final : public GateScenario<kOrder> {
 public:
  ReturnsWithoutThread() : GateScenario<kOrder>(3) {}
  void run(int thread) override {
    if (thread == 0) {
      require(this->gate_.enter(this->lanes_[0]), "the first lane has no permit");
      stands_in_line_ = !this->gate_.enter(this->lanes_[1]);
      changed();
      this->use(this->lanes_[0]);  // serves the second lane
      wait_until("the returner", [this] { return is_over_; });
      this->work();
    } else {
      wait_until("a lane in line", [this] { return stands_in_line_; });
      if (!this->gate_.enter_again(one_)) {
        wait_until("the permit", [this] { return one_.went_on; });
      }
      this->use(this->lanes_[2]);
      is_over_ = true;
      changed();
    }
  }

 private:
  void tell(GlobalGate::Returner* returner) override {
    if (returner == nullptr) return;
    require(returner == &one_ && !one_.went_on, "told twice");
    one_.went_on = true;
    changed();
  }
  ReturnerOf one_{this->lanes_[2]};
  bool stands_in_line_ = false;
  bool is_over_ = false;
};
TEST(ExploreGate, AReturnerTakesThePermitOfALaneWithoutAThreadByArrival) {
  expect_holds<ReturnsWithoutThread<GateOrder::kArrival>>("GlobalGate", {.threads = 2});
}
TEST(ExploreGate, AReturnerTakesThePermitOfALaneWithoutAThreadByAge) {
  expect_holds<ReturnsWithoutThread<GateOrder::kAge>>("GlobalGate", {.threads = 2});
}

// The turns of two lanes with several tasks each. A turn posts itself again or ends; lanes stand in line behind a lane that is
// coming although permits are free.
class TurnsByShares final : public Scenario, public LaneOwner {
 public:
  TurnsByShares() {
    const Uninterrupted setup;
    light_ = table_.pin("light", LaneTable::hash("light"), {});
    heavy_ = table_.pin("heavy", LaneTable::hash("heavy"), {});
    posted_ = {light_, heavy_};
  }
  ~TurnsByShares() override {
    table_.unpin(*light_);
    table_.unpin(*heavy_);
  }
  void run_turn(Lane&, Turn&) override {}
  std::unique_ptr<LaneExtension> extend(Lane& lane) override {
    return std::make_unique<GroupState>(
        dispatch_, lane, GroupLimits{.weight = lane.key() == "heavy" ? 3 : 1}, scheduler_);
  }
  void run(int) override {
    while (true) {
      wait_until("a turn", [this] { return !posted_.empty() || ended_ == 2 * kTasks; });
      if (posted_.empty()) return;
      Lane& lane = *posted_.front();
      posted_.pop_front();
      turn(lane);
    }
  }
  void check() override {
    const GlobalGate::Use use = gate_.use();
    require(use.in_flight == 0 && use.in_line == 0, "a permit or a lane in line is left");
  }

 private:
  static constexpr int kTasks = 2;
  static constexpr int kLimit = 2;

  void turn(Lane& lane) {
    GlobalGate::Lanes served;
    const bool has_permit = gate_.enter_by_shares(lane, served);
    post(served);
    if (!has_permit) return;
    int& left = &lane == heavy_ ? heavy_left_ : light_left_;
    require(left > 0, "a turn without a task");
    if (--left > 0) {
      post({&lane});
    } else {
      GlobalGate::Lanes others;
      gate_.turn_over(lane, others);
      post(others);
    }
    require(++in_flight_ <= kLimit, "more permits are out than the limit allows");
    yield();
    --in_flight_;
    ++ended_;
    changed();
    if (Lane* next = gate_.leave(lane).lane; next != nullptr) post({next});
  }
  void post(const GlobalGate::Lanes& lanes) {
    for (Lane* lane : lanes) posted_.push_back(lane);
    changed();
  }

  ExploredScheduler scheduler_;
  LaneTable table_{*this};
  Dispatch dispatch_{{.global_max_in_flight = kLimit}, scheduler_, table_, /*shares=*/true};
  GlobalGate gate_{kLimit, GateOrder::kShares};
  Lane* light_ = nullptr;
  Lane* heavy_ = nullptr;
  std::deque<Lane*> posted_;
  int light_left_ = kTasks;
  int heavy_left_ = kTasks;
  int in_flight_ = 0;
  int ended_ = 0;
};
TEST(ExploreGate, TurnsOfLanesWithSeveralTasksByShares) {
  expect_holds<TurnsByShares>("GlobalGate", {.threads = 3});
}

}  // namespace
}  // namespace keyway::explore
