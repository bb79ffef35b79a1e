// Lane: threads that enter, take, finish, withdraw, drain, give back and change limits.
//
// Requirements: no more run than the limit; waiters of one submitter start in the order they entered; at most one turn
// is posted; every waiter that entered is run, withdrawn or drained. If a wake-up is lost, the workers wait for a turn
// for ever, and the explorer reports a deadlock.
#include <algorithm>
#include <array>

#include <gtest/gtest.h>

#include "explore/explorations.h"
#include "lanes/lane.h"

namespace keyway::explore {
namespace {

class LaneScenario : public Scenario, public LaneOwner {
 public:
  explicit LaneScenario(LaneLimits limits)
      : lane_(*this, "key", 1, limits), most_(limits.running) {}

  void run_turn(Lane&, Turn&) override {}
  LaneRank rank_of(const Waiter& waiter) const override {
    return static_cast<const Item&>(waiter).rank;
  }

 protected:
  struct Item : Waiter {
    int submitter = -1;
    int place = 0;  // among those of its submitter
    LaneRank rank;
  };

  void post(bool needed) {
    if (!needed) return;
    require(!turn_posted_, "two turns are out");
    turn_posted_ = true;
    changed();
  }
  void submit(int submitter, Item& item) {
    item.submitter = submitter;
    item.place = submitted_[static_cast<std::size_t>(submitter)]++;
    ++inside_;
    const Lane::Entered entered = item.rank.plain() ? lane_.enter(item) : lane_.enter_ranked(item);
    if (entered == Lane::Entered::kFull || entered == Lane::Entered::kClosed) left();
    post(entered == Lane::Entered::kNeedsTurn);
  }
  void left() {
    --inside_;
    changed();
  }
  void submitter_is_done() {
    ++submitters_done_;
    changed();
  }
  bool over() const { return submitters_done_ == submitters_ && inside_ == 0; }

  // Takes turns until everything has ended.
  void work() {
    while (true) {
      wait_until("a turn", [this] { return turn_posted_ || over(); });
      if (!turn_posted_) return;
      turn_posted_ = false;
      serve();
    }
  }
  void serve() {
    LaneTake taken = lane_.take();
    post(taken.post_turn);
    while (taken.waiter != nullptr) {
      auto& item = static_cast<Item&>(*taken.waiter);
      const std::uint32_t units = taken.units;
      begin(item, units);
      yield();  // others may begin meanwhile
      if (!during(item, units)) return;
      end(item, units);
      taken = lane_.finish(LaneOutcome::kSucceeded, /*go_on=*/true, units);
      post(taken.post_turn);
      left();
    }
  }
  void begin(Item& item, std::uint32_t units) {
    running_ += units;
    require(running_ <= most_, "more run than the limit allows");
    int& next = started_[static_cast<std::size_t>(item.submitter)];
    if (checks_order_) require(item.place >= next, "a waiter overtook an earlier one");
    next = std::max(next, item.place + 1);
  }
  void end(Item&, std::uint32_t units) { running_ -= units; }
  // False if the task gave its permits back, and will be taken once more.
  virtual bool during(Item&, std::uint32_t) { return true; }

  void check() override {
    const LaneCounts counts = lane_.counts();
    require(counts.running == 0 && counts.waiting == 0, "a waiter or a runner is left");
    require(lane_.idle(), "the lane is not idle");
  }

  Lane lane_;
  std::uint32_t most_;
  int submitters_ = 0;
  bool checks_order_ = true;

 private:
  // Written by one explored thread at a time.
  bool turn_posted_ = false;
  int inside_ = 0;
  int submitters_done_ = 0;
  std::uint32_t running_ = 0;
  std::array<int, kMaxThreads> submitted_{};
  std::array<int, kMaxThreads> started_{};
};

// Each thread submits and then works.
template <int kSubmitters, std::uint32_t kLimit>
class EnterTakeFinish final : public LaneScenario {
 public:
  EnterTakeFinish() : LaneScenario({.running = kLimit}) { submitters_ = kSubmitters; }
  void run(int thread) override {
    for (Item& item : items_[static_cast<std::size_t>(thread)]) submit(thread, item);
    submitter_is_done();
    work();
  }

 private:
  std::array<std::array<Item, 2>, kSubmitters> items_;
};
TEST(ExploreLane, TwoSubmittersOneAtATime) { expect_holds<EnterTakeFinish<2, 1>>("Lane"); }
TEST(ExploreLane, TwoSubmittersTwoAtATime) { expect_holds<EnterTakeFinish<2, 2>>("Lane"); }
TEST(ExploreLane, ThreeSubmittersTwoAtATime) {
  expect_holds<EnterTakeFinish<3, 2>>("Lane", {.threads = 3});
}

class Withdraws final : public LaneScenario {
 public:
  Withdraws() : LaneScenario({.running = 1}) { submitters_ = 2; }
  void run(int thread) override {
    if (thread == 0) {
      for (Item& item : items_) submit(0, item);
      submitter_is_done();
    } else if (thread == 1) {
      for (Item& item : items_) {
        const Lane::Withdrawn withdrawn = lane_.withdraw(item);
        post(withdrawn.post_turn);
        if (withdrawn) left();
      }
      submitter_is_done();
    }
    work();
  }

 private:
  std::array<Item, 2> items_;
};
TEST(ExploreLane, WithdrawAgainstTakeAndFinish) { expect_holds<Withdraws>("Lane"); }
TEST(ExploreLane, WithdrawAgainstTakeAndFinishOfThreeThreads) {
  expect_holds<Withdraws>("Lane", {.threads = 3});
}

class Drains final : public LaneScenario {
 public:
  Drains() : LaneScenario({.running = 1}) { submitters_ = 2; }
  void run(int thread) override {
    if (thread == 0) {
      for (Item& item : items_) submit(0, item);
      submitter_is_done();
    } else if (thread == 1) {
      Waiter* waiter = lane_.drain();
      while (waiter != nullptr) {
        waiter = waiter->next;
        left();
      }
      submitter_is_done();
    }
    work();
  }

 private:
  std::array<Item, 3> items_;
};
TEST(ExploreLane, DrainAgainstEnterTakeAndFinish) { expect_holds<Drains>("Lane"); }

class Closes final : public LaneScenario {
 public:
  Closes() : LaneScenario({.running = 1, .waiting = 1}) { submitters_ = 2; }
  void run(int thread) override {
    if (thread == 0) {
      for (Item& item : items_) submit(0, item);
    } else {
      lane_.close();
    }
    submitter_is_done();
    work();
  }

 private:
  std::array<Item, 3> items_;
};
TEST(ExploreLane, CloseAgainstEnterOfABoundedLane) { expect_holds<Closes>("Lane"); }

class ChangesLimits final : public LaneScenario {
 public:
  ChangesLimits() : LaneScenario({.running = 1}) {
    submitters_ = 2;
    most_ = 2;
  }
  void run(int thread) override {
    if (thread == 0) {
      for (Item& item : items_) submit(0, item);
      submitter_is_done();
    } else if (thread == 1) {
      post(lane_.set_limits({.running = 2}).post_turn);
      post(lane_.set_limits({.running = 1, .waiting = 5}).post_turn);
      submitter_is_done();
    }
    work();
  }

 private:
  std::array<Item, 3> items_;
};
TEST(ExploreLane, SetLimitsAgainstTakeAndFinish) { expect_holds<ChangesLimits>("Lane"); }
TEST(ExploreLane, SetLimitsAgainstTakeAndFinishOfThreeThreads) {
  expect_holds<ChangesLimits>("Lane", {.threads = 3});
}

class Pauses final : public LaneScenario {
 public:
  Pauses() : LaneScenario({.running = 1}) { submitters_ = 2; }
  void run(int thread) override {
    if (thread == 0) {
      for (Item& item : items_) submit(0, item);
      submitter_is_done();
    } else if (thread == 1) {
      post(lane_.set_paused(true));
      post(lane_.set_paused(false));
      submitter_is_done();
    }
    work();
  }

 private:
  std::array<Item, 2> items_;
};
TEST(ExploreLane, PauseAgainstTakeAndFinish) { expect_holds<Pauses>("Lane", {.threads = 3}); }

// The first task gives its permit back for the one behind it, and comes back in front of all others.
class GivesBack final : public LaneScenario {
 public:
  GivesBack() : LaneScenario({.running = 1}) {
    submitters_ = 2;
    checks_order_ = false;
    returner_.submitter = 0;
  }
  void run(int thread) override {
    if (thread == 0) {
      for (Item& item : items_) submit(0, item);
    } else if (thread == 1) {
      submit(1, other_);
    }
    if (thread < 2) submitter_is_done();
    work();
  }

 private:
  bool during(Item& item, std::uint32_t units) override {
    if (&item != &items_[0]) return true;
    end(item, units);
    post(lane_.give_back(units));
    post(lane_.enter_again(returner_) == Lane::Entered::kNeedsTurn);
    return false;
  }

  std::array<Item, 2> items_;
  Item other_;
  Item returner_;
};
TEST(ExploreLane, GiveBackAndComeAgain) { expect_holds<GivesBack>("Lane"); }
TEST(ExploreLane, GiveBackAndComeAgainOfThreeThreads) {
  expect_holds<GivesBack>("Lane", {.threads = 3});
}

class Ranked final : public LaneScenario {
 public:
  Ranked() : LaneScenario({.running = 2}) {
    submitters_ = 2;
    checks_order_ = false;
    items_[1].rank.cost = 2;
    other_.rank.priority = 1;
  }
  void run(int thread) override {
    if (thread == 0) {
      for (Item& item : items_) submit(0, item);
    } else if (thread == 1) {
      submit(1, other_);
      const Lane::Withdrawn withdrawn = lane_.withdraw(items_[0]);
      post(withdrawn.post_turn);
      if (withdrawn) left();
    }
    if (thread < 2) submitter_is_done();
    work();
  }

 private:
  std::array<Item, 3> items_;
  Item other_;
};
TEST(ExploreLane, CostsAndPriorities) { expect_holds<Ranked>("Lane"); }
TEST(ExploreLane, CostsAndPrioritiesOfThreeThreads) {
  expect_holds<Ranked>("Lane", {.threads = 3});
}

// Functions that only look at a lane take both locks too: in one order.
class Looks final : public LaneScenario {
 public:
  Looks() : LaneScenario({.running = 1}) { submitters_ = 2; }
  void run(int thread) override {
    if (thread == 0) {
      for (Item& item : items_) submit(0, item);
      submitter_is_done();
      work();
    } else {
      lane_.of_next([](const Waiter&) -> std::int64_t { return 1; });
      const LaneCounts counts = lane_.counts();
      require(counts.running + counts.waiting + counts.succeeded == counts.entered,
              "counts do not add up");
      require(lane_.view(&items_[0]).position <= 2, "a place that is not there");
      submitter_is_done();
    }
  }

 private:
  std::array<Item, 2> items_;
};
TEST(ExploreLane, LooksAgainstEnterTakeAndFinish) { expect_holds<Looks>("Lane"); }

}  // namespace
}  // namespace keyway::explore
