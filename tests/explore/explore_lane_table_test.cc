// LaneTable: a lane is never freed while a waiter or a runner is inside, and no waiter is lost between a lane that is freed
// and the next one of its key. ReadyQueue: every item is popped once, in the order of the pushes.
#include <array>
#include <string_view>

#include <gtest/gtest.h>

#include "base/spin_lock.h"
#include "explore/explorations.h"
#include "lanes/lane_table.h"
#include "lanes/ready_queue.h"

namespace keyway::explore {
namespace {

class TableScenario : public Scenario, public LaneOwner {
 public:
  void run_turn(Lane&, Turn&) override {}

 protected:
  static constexpr LaneLimits kLimits{.running = 1};
  static constexpr std::string_view kKey = "a-key-that-is-longer-than-the-lane-has-room-for";
  const std::size_t hash_ = LaneTable::hash(kKey);

  // True if the waiter got in. Then the thread that has the turn runs it.
  bool visit(Waiter& waiter) {
    LaneTable::Entry entry = table_.enter(kKey, hash_, waiter, nullptr);
    if (entry.entered == LaneTable::Entered::kNeedsLimits) {
      entry = table_.enter(kKey, hash_, waiter, &kLimits);
    }
    if (entry.entered != LaneTable::Entered::kIn) return false;
    if (entry.needs_turn != nullptr) serve(*entry.needs_turn);
    return true;
  }
  void serve(Lane& lane) {
    require(lane.key() == kKey, "the lane is gone");
    LaneTake taken = lane.take();
    require(!taken.post_turn, "a serial lane passes its turn on while one runs");
    while (taken.waiter != nullptr) {
      ++ran_;
      taken = lane.finish(LaneOutcome::kSucceeded, /*go_on=*/true);
    }
    // Another thread may have freed it by now: only the pointer is used.
    if (taken.post_turn) return serve(lane);
    if (taken.idle) table_.forget_if_idle(&lane, hash_);
  }

  LaneTable table_{*this};
  int ran_ = 0;
};

class EnterAgainstFree final : public TableScenario {
 public:
  void run(int thread) override {
    for (Waiter& waiter : waiters_[static_cast<std::size_t>(thread)]) visit(waiter);
  }
  void check() override {
    const int all = static_cast<int>(2 * waiters_.size());
    require(ran_ == all || ran_ == all - 2,
            "a waiter was lost");  // the third thread is not always there
    require(table_.counts().succeeded == static_cast<std::uint64_t>(ran_), "the counts are wrong");
  }

 private:
  std::array<std::array<Waiter, 2>, 3> waiters_;
};
TEST(ExploreLaneTable, EnterAgainstFree) { expect_holds<EnterAgainstFree>("LaneTable"); }
TEST(ExploreLaneTable, EnterAgainstFreeOfThreeThreads) {
  expect_holds<EnterAgainstFree>("LaneTable", {.threads = 3});
}

class PinAgainstFree final : public TableScenario {
 public:
  void run(int thread) override {
    if (thread == 0) {
      visit(waiters_[0]);
      visit(waiters_[1]);
      return;
    }
    Lane* lane = table_.pin_existing(kKey, hash_);
    if (lane == nullptr) lane = table_.pin(kKey, hash_, kLimits);
    require(lane->key() == kKey, "a pinned lane is gone");
    if (LaneTable::enter(*lane, other_).needs_turn != nullptr) serve(*lane);
    require(lane->key() == kKey, "a pinned lane is gone");
    table_.unpin(*lane);
    table_.forget_idle();
  }
  void check() override { require(ran_ == 3, "a waiter was lost"); }

 private:
  std::array<Waiter, 2> waiters_;
  Waiter other_;
};
TEST(ExploreLaneTable, PinAgainstFree) { expect_holds<PinAgainstFree>("LaneTable"); }

class CloseAgainstEnter final : public TableScenario {
 public:
  void run(int thread) override {
    if (thread == 0) {
      for (Waiter& waiter : waiters_) entered_ += visit(waiter) ? 1 : 0;
      return;
    }
    table_.close();
    // Every waiter that got in is seen now.
    table_.for_each([&](Lane& lane) {
      for (Waiter* waiter = lane.drain(); waiter != nullptr; waiter = waiter->next) ++drained_;
    });
  }
  void check() override {
    require(ran_ + drained_ == entered_, "a waiter was lost");
    Waiter late;
    require(!visit(late), "a waiter got in after close()");
  }

 private:
  std::array<Waiter, 2> waiters_;
  int entered_ = 0;
  int drained_ = 0;
};
TEST(ExploreLaneTable, CloseAgainstEnter) { expect_holds<CloseAgainstEnter>("LaneTable"); }

// A task enters the other lane before it leaves its own, twice: until then there is no moment without a task. One of the
// moves goes from a lane that is looked at late to one that was looked at before.
class EmptyAgainstATaskThatMovesOn final : public TableScenario {
 public:
  EmptyAgainstATaskThatMovesOn() {
    const Uninterrupted setup;
    enter(0);
  }
  void run(int thread) override {
    if (thread > 0) return require(!table_.empty() || ended_, "a table with a task is empty");
    for (std::size_t stay : {0, 1, 2}) {
      stay < 2 ? enter(stay + 1) : void(ended_ = true);
      lane_of(stay).finish(LaneOutcome::kSucceeded, /*go_on=*/false);
    }
  }
  void check() override {
    require(table_.empty(), "a task is left");
    table_.unpin(a_);
    table_.unpin(b_);
  }

 private:
  Lane& lane_of(std::size_t stay) { return stay == 1 ? b_ : a_; }
  void enter(std::size_t stay) {
    Lane& lane = lane_of(stay);
    require(LaneTable::enter(lane, waiters_[stay]).needs_turn != nullptr, "the lane has a turn");
    require(lane.take().waiter == &waiters_[stay], "another waiter is in the lane");
  }
  Lane& a_ = *table_.pin("a", LaneTable::hash("a"), kLimits);
  Lane& b_ = *table_.pin("b", LaneTable::hash("b"), kLimits);
  std::array<Waiter, 3> waiters_;
  bool ended_ = false;
};
TEST(ExploreLaneTable, EmptyAgainstATaskThatMovesOn) {
  expect_holds<EmptyAgainstATaskThatMovesOn>("LaneTable");
}

// A lane that counts is freed while the counts are read.
class CountsAgainstFree final : public TableScenario {
 public:
  void run(int thread) override {
    if (thread == 0) {
      for (Waiter& waiter : waiters_) visit(waiter);
      return;
    }
    std::uint64_t before = 0;
    for (int i = 0; i < 3; ++i) {
      const std::uint64_t now = table_.counts().succeeded;
      require(now >= before, "the counts went back");
      before = now;
    }
  }

 private:
  std::array<Waiter, 2> waiters_;
};
TEST(ExploreLaneTable, CountsAgainstFree) { expect_holds<CountsAgainstFree>("LaneTable"); }

// ---- ReadyQueue

class PushAgainstPop final : public Scenario {
 public:
  void run(int thread) override {
    if (thread == 0) {
      for (int popped = 0; popped < kPushers * 2;) {
        auto* item = static_cast<Item*>(queue_.pop());
        if (item == nullptr) {
          cpu_relax();
          continue;
        }
        ++popped;
        require(item->number == next_[static_cast<std::size_t>(item->pusher)]++,
                "not first in, first out");
      }
      require(queue_.empty(), "not empty");
      return;
    }
    auto& mine = items_[static_cast<std::size_t>(thread - 1)];
    for (int i = 0; i < 2; ++i) {
      mine[static_cast<std::size_t>(i)].pusher = thread - 1;
      mine[static_cast<std::size_t>(i)].number = i;
      queue_.push(mine[static_cast<std::size_t>(i)]);
    }
  }

 private:
  static constexpr int kPushers = 2;
  struct Item final : Runnable {
    void run(Turn&) override {}
    int pusher = 0;
    int number = 0;
  };
  ReadyQueue queue_;
  std::array<std::array<Item, 2>, kPushers> items_;
  std::array<int, kPushers> next_{};
};
TEST(ExploreReadyQueue, PushAgainstPop) {
  expect_holds<PushAgainstPop>("ReadyQueue", {.threads = 3});
}

class PopAgainstPop final : public Scenario {
 public:
  void run(int thread) override {
    if (thread == 0) {
      for (Item& item : items_) queue_.push(item);
    }
    while (popped_ < 3) {
      if (auto* item = static_cast<Item*>(queue_.pop())) {
        require(++item->popped == 1, "popped twice");
        ++popped_;
      } else {
        cpu_relax();
      }
    }
  }

 private:
  struct Item final : Runnable {
    void run(Turn&) override {}
    int popped = 0;
  };
  ReadyQueue queue_;
  std::array<Item, 3> items_;
  int popped_ = 0;
};
TEST(ExploreReadyQueue, PopAgainstPop) {
  expect_holds<PopAgainstPop>("ReadyQueue", {.threads = 3});
}

}  // namespace
}  // namespace keyway::explore
