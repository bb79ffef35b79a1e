#include "lanes/lane.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "lanes/ready_queue.h"
#include "support/limit_oracle.h"

namespace keyway {
namespace {

struct NoOwner final : LaneOwner {
  void run_turn(Lane&, Turn&) override {}
};

class LaneTest : public ::testing::Test {
 protected:
  // Enters and says whether the lane wants its turn posted.
  bool enter(std::size_t who) { return lane_.enter(waiters_[who]) == Lane::Entered::kNeedsTurn; }
  LaneTake finish(bool go_on) { return lane_.finish(LaneOutcome::kSucceeded, go_on); }

  NoOwner owner_;
  Lane lane_{owner_, "key", 1, {.running = 2}};
  std::array<Waiter, 6> waiters_;
};

TEST_F(LaneTest, KeepsItsKeyWhateverItsLength) {
  for (const std::size_t size : {1U, 24U, 25U, 100U, 1000U}) {
    const std::string key(size, 'k');
    const Lane lane(owner_, key, 42, {});
    EXPECT_EQ(lane.key(), key);
    EXPECT_EQ(lane.hash(), 42U);
  }
}

// With the checks of lock_order.h, the wrong order of the two locks ends the test.
TEST_F(LaneTest, ALookAtTheNextWaiterTakesBothLocksInTheirOrder) {
  const auto index_of = [&](const Waiter& waiter) -> std::int64_t {
    return &waiter - &waiters_[0];
  };
  EXPECT_EQ(lane_.of_next(index_of), std::nullopt);
  enter(1);
  enter(0);
  EXPECT_EQ(lane_.of_next(index_of), 1);
}

TEST_F(LaneTest, OnlyTheFirstWhoWaitsNeedsToPostTheTurn) {
  EXPECT_TRUE(lane_.idle());
  EXPECT_EQ(lane_.enter(waiters_[0]), Lane::Entered::kNeedsTurn);
  EXPECT_EQ(lane_.enter(waiters_[1]), Lane::Entered::kTurnIsOnItsWay);
  EXPECT_FALSE(lane_.idle());
}

TEST_F(LaneTest, WhoTakesPassesTheTurnOnWhileThereIsMoreToTake) {
  lane_.set_limits({.running = 3});
  for (std::size_t i = 0; i < 2; ++i) enter(i);
  const LaneTake first = lane_.take();
  EXPECT_EQ(first.waiter, &waiters_[0]);
  EXPECT_TRUE(first.post_turn);
  const LaneTake second = lane_.take();
  EXPECT_EQ(second.waiter, &waiters_[1]);
  EXPECT_FALSE(second.post_turn) << "nobody is left";
  EXPECT_TRUE(enter(2)) << "so the next one needs a turn again";
}

TEST_F(LaneTest, AtTheLimitTheTurnStaysAndNobodyIsSentForNothing) {
  for (std::size_t i = 0; i < 4; ++i) enter(i);
  EXPECT_TRUE(lane_.take().post_turn);
  const LaneTake last = lane_.take();
  EXPECT_EQ(last.waiter, &waiters_[1]);
  EXPECT_FALSE(last.post_turn);
  EXPECT_FALSE(enter(4));
  const LaneTake next = finish(/*go_on=*/false);
  EXPECT_EQ(next.waiter, nullptr);
  EXPECT_TRUE(next.post_turn) << "who finishes takes the turn up";
}

TEST_F(LaneTest, AFullLaneKeepsItsTurnSoWhoEntersSendsNobody) {
  for (std::size_t i = 0; i < 2; ++i) enter(i);
  lane_.take();
  lane_.take();
  EXPECT_FALSE(enter(2)) << "nobody waited, but there is no room either";
  EXPECT_EQ(finish(/*go_on=*/true).waiter, &waiters_[2]);
  EXPECT_FALSE(finish(/*go_on=*/false).post_turn) << "nobody is left";
  EXPECT_TRUE(enter(3)) << "now there is room";
  EXPECT_EQ(lane_.take().waiter, &waiters_[3]);
}

TEST_F(LaneTest, WhoFinishesGoesOnWithTheNextOne) {
  enter(0);
  enter(1);
  lane_.take();
  lane_.take();
  enter(2);
  EXPECT_EQ(lane_.take().waiter, nullptr) << "the limit is reached";
  enter(3);
  const LaneTake next = finish(/*go_on=*/true);
  EXPECT_EQ(next.waiter, &waiters_[2]);
  EXPECT_EQ(next.number, 3U);
  EXPECT_FALSE(next.post_turn);
  EXPECT_EQ(finish(/*go_on=*/true).waiter, &waiters_[3]);
  EXPECT_EQ(lane_.counts().running, 2U);
  EXPECT_FALSE(finish(/*go_on=*/true).idle);
  EXPECT_TRUE(finish(/*go_on=*/true).idle);
  EXPECT_TRUE(lane_.idle());
}

TEST_F(LaneTest, ATurnThatFindsNobodyEndsThere) {
  enter(0);
  EXPECT_TRUE(lane_.withdraw(waiters_[0]));
  EXPECT_FALSE(lane_.idle()) << "its turn is still out";
  const LaneTake nothing = lane_.take();
  EXPECT_EQ(nothing.waiter, nullptr);
  EXPECT_FALSE(nothing.post_turn);
  EXPECT_TRUE(nothing.idle);
  EXPECT_TRUE(lane_.idle());
}

TEST_F(LaneTest, AWaiterMayLeaveFromAnywhereButOnlyWhileItWaits) {
  for (std::size_t i = 0; i < 4; ++i) enter(i);
  lane_.take();
  EXPECT_FALSE(lane_.withdraw(waiters_[0])) << "it has its permit";
  EXPECT_TRUE(lane_.withdraw(waiters_[2]));
  EXPECT_FALSE(lane_.withdraw(waiters_[2]));
  EXPECT_EQ(lane_.take().waiter, &waiters_[1]);
  EXPECT_EQ(finish(/*go_on=*/true).waiter, &waiters_[3]);
  EXPECT_EQ(lane_.counts().cancelled, 1U);
}

TEST_F(LaneTest, DrainGivesTheWaitersInOrderAndAsksThoseWhoRunToStop) {
  for (std::size_t i = 0; i < 4; ++i) enter(i);
  const std::uint64_t number = lane_.take().number;
  EXPECT_FALSE(lane_.stop_wanted(number));
  Waiter* left = lane_.drain();
  for (std::size_t i = 1; i < 4; ++i, left = left->next) ASSERT_EQ(left, &waiters_[i]);
  EXPECT_EQ(left, nullptr);
  EXPECT_TRUE(lane_.stop_wanted(number));
  EXPECT_EQ(lane_.drain(), nullptr);

  EXPECT_EQ(lane_.take().waiter, nullptr);  // the turn that was out
  EXPECT_TRUE(enter(4)) << "the lane can be used again at once";
  EXPECT_FALSE(lane_.stop_wanted(lane_.take().number));
}

// A look at the queue says how many may enter before the next look. A change of the limits makes that wrong.
TEST_F(LaneTest, ALowerWaitingLimitHoldsForTheNextWhoEnters) {
  lane_.set_limits({.running = 1, .waiting = 4});
  enter(0);
  lane_.set_limits({.running = 1, .waiting = 0});
  EXPECT_EQ(lane_.enter(waiters_[1]), Lane::Entered::kFull);
  lane_.set_limits({.running = 1, .waiting = 1});
  EXPECT_NE(lane_.enter(waiters_[1]), Lane::Entered::kFull);
  EXPECT_EQ(lane_.enter(waiters_[2]), Lane::Entered::kFull);
}

TEST_F(LaneTest, AHigherLimitLetsMoreInAtOnce) {
  for (std::size_t i = 0; i < 4; ++i) enter(i);
  lane_.take();
  lane_.take();
  EXPECT_TRUE(lane_.set_limits({.running = 4}).post_turn) << "the turn must be posted";
  EXPECT_TRUE(lane_.take().post_turn);
  EXPECT_NE(lane_.take().waiter, nullptr);
  EXPECT_EQ(lane_.counts().running, 4U);
  EXPECT_FALSE(lane_.set_limits({.running = 5}).post_turn) << "nobody waits";
}

TEST_F(LaneTest, EachLimitCanBeSetWithoutTheOther) {
  lane_.set_limits({.running = 3, .waiting = 5});
  lane_.set_limits({.running = 7}, LimitPart::kRunning);
  EXPECT_EQ(lane_.limits().running, 7U);
  EXPECT_EQ(lane_.limits().waiting, 5U);
  lane_.set_limits({.waiting = 9}, LimitPart::kWaiting);
  EXPECT_EQ(lane_.limits().running, 7U);
  EXPECT_EQ(lane_.limits().waiting, 9U);
}

TEST_F(LaneTest, OlderLimitsDoNotReplaceNewerOnes) {
  lane_.set_limits({.running = 3, .waiting = 5, .version = 2});
  const Lane::Changed older = lane_.set_limits({.running = 1, .waiting = 1, .version = 1});
  EXPECT_FALSE(older.lowered);
  EXPECT_EQ(lane_.limits().running, 3U);
  EXPECT_EQ(lane_.limits().waiting, 5U);
  lane_.set_limits({.running = 1, .waiting = 1}, LimitPart::kWaiting);
  EXPECT_EQ(lane_.limits().waiting, 5U) << "version 0 is the oldest";
  EXPECT_TRUE(lane_.set_limits({.running = 2, .waiting = 4, .version = 2}).lowered);
  EXPECT_EQ(lane_.limits().running, 2U);
}

TEST_F(LaneTest, ALowerLimitHoldsAsSoonAsEnoughHaveFinished) {
  lane_.set_limits({.running = 3});
  for (std::size_t i = 0; i < 5; ++i) enter(i);
  for (int i = 0; i < 3; ++i) lane_.take();
  EXPECT_FALSE(lane_.set_limits({.running = 1}).post_turn);
  EXPECT_EQ(finish(/*go_on=*/true).waiter, nullptr);
  const LaneTake still_too_many = finish(/*go_on=*/true);
  EXPECT_EQ(still_too_many.waiter, nullptr);
  EXPECT_FALSE(still_too_many.post_turn);
  EXPECT_EQ(finish(/*go_on=*/true).waiter, &waiters_[3]);
  EXPECT_EQ(lane_.counts().running, 1U);
}

TEST_F(LaneTest, HoldsBackNoMoreThanItsWaitingLimit) {
  lane_.set_limits({.running = 2, .waiting = 1});
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NE(lane_.enter(waiters_[i]), Lane::Entered::kFull);
  EXPECT_EQ(lane_.enter(waiters_[3]), Lane::Entered::kFull);
  lane_.take();
  lane_.take();
  EXPECT_EQ(lane_.enter(waiters_[3]), Lane::Entered::kFull) << "two run, one waits";
  EXPECT_TRUE(lane_.withdraw(waiters_[2]));
  EXPECT_NE(lane_.enter(waiters_[3]), Lane::Entered::kFull) << "a place has become free";
}

TEST_F(LaneTest, AWaitingLimitOfZeroTakesOnlyThoseWhoCanStart) {
  lane_.set_limits({.running = 1, .waiting = 0});
  EXPECT_EQ(lane_.enter(waiters_[0]), Lane::Entered::kNeedsTurn);
  EXPECT_EQ(lane_.enter(waiters_[1]), Lane::Entered::kFull);
  lane_.take();
  EXPECT_EQ(lane_.enter(waiters_[1]), Lane::Entered::kFull);
  EXPECT_TRUE(finish(/*go_on=*/true).idle);
  EXPECT_EQ(lane_.enter(waiters_[1]), Lane::Entered::kNeedsTurn);
}

TEST_F(LaneTest, NobodyGetsInAfterItIsClosedAndWhoWaitsMayStillRun) {
  enter(0);
  lane_.close();
  EXPECT_EQ(lane_.enter(waiters_[1]), Lane::Entered::kClosed);
  lane_.set_limits({.running = 1, .waiting = 0});
  EXPECT_EQ(lane_.enter(waiters_[1]), Lane::Entered::kClosed) << "closed comes before full";
  EXPECT_EQ(lane_.take().waiter, &waiters_[0]);
}

TEST_F(LaneTest, APermitThatIsLentLetsTheNextOneInAndComesBackInFront) {
  lane_.set_limits({.running = 1});
  for (std::size_t i = 0; i < 4; ++i) enter(i);
  lane_.take();
  EXPECT_TRUE(lane_.give_back());
  EXPECT_EQ(lane_.take().waiter, &waiters_[1]);
  EXPECT_EQ(lane_.enter_again(waiters_[0]), Lane::Entered::kTurnIsOnItsWay);
  EXPECT_EQ(finish(/*go_on=*/true).waiter, &waiters_[0]);
  EXPECT_EQ(finish(/*go_on=*/true).waiter, &waiters_[2]);
  EXPECT_EQ(lane_.counts().entered, 4U) << "who comes back is not counted twice";
}

TEST_F(LaneTest, ALaneStaysUntilATaskThatGaveItsPermitBackHasComeAgain) {
  lane_.set_limits({.running = 1});
  enter(0);
  enter(1);
  lane_.take();
  EXPECT_TRUE(lane_.give_back());
  EXPECT_EQ(lane_.take().waiter, &waiters_[1]);
  EXPECT_FALSE(lane_.give_back()) << "nobody waits";
  EXPECT_FALSE(lane_.empty());
  EXPECT_FALSE(lane_.idle());
  LaneCounts counts;
  EXPECT_FALSE(lane_.retire(counts));
  EXPECT_EQ(lane_.enter_again(waiters_[1]), Lane::Entered::kNeedsTurn);
  EXPECT_EQ(lane_.take().waiter, &waiters_[1]);
  EXPECT_EQ(lane_.counts().succeeded, 0U);
}

TEST_F(LaneTest, CountsWhatBecameOfEach) {
  for (std::size_t i = 0; i < 5; ++i) enter(i);
  lane_.take();
  lane_.finish(LaneOutcome::kSucceeded, /*go_on=*/true);
  lane_.finish(LaneOutcome::kFailed, /*go_on=*/true);
  lane_.finish(LaneOutcome::kCancelled, /*go_on=*/true);
  lane_.drain();
  const LaneCounts counts = lane_.counts();
  EXPECT_EQ(counts.entered, 5U);
  EXPECT_EQ(counts.succeeded, 1U);
  EXPECT_EQ(counts.failed, 1U);
  EXPECT_EQ(counts.cancelled, 1U);
  EXPECT_EQ(counts.running, 1U);
  EXPECT_EQ(counts.drained, 1U);
  EXPECT_EQ(counts.waiting, 0U);
}

// ---- many threads

struct Ticket : Waiter {
  int number = 0;
};

// Takes turns from a queue, as a pool would.
struct Crew final : LaneOwner {
  explicit Crew(std::uint32_t limit) : oracle(limit) {}

  void run_turn(Lane& lane, Turn&) override {
    LaneTake taken = lane.take();
    if (taken.post_turn) queue.push(lane);
    while (taken.waiter != nullptr) {
      const int number = static_cast<Ticket*>(taken.waiter)->number;
      oracle.begin(static_cast<std::uint64_t>(number));
      if (in_order && number != next++) ++out_of_order;
      if (lingers) std::this_thread::yield();
      oracle.end();
      done.fetch_add(1);
      taken = lane.finish(LaneOutcome::kSucceeded, done.load() % 8 != 0);
      if (taken.post_turn) queue.push(lane);
    }
  }
  void work_until(int total) {
    Turn turn;
    while (done.load() < total) {
      if (Runnable* item = queue.pop()) {
        item->run(turn);
      } else {
        std::this_thread::yield();
      }
    }
  }

  ReadyQueue queue;
  bool in_order = false;
  bool lingers = false;  // so that some run at once, also on few cores
  int next = 0;          // under the lane's only permit
  LimitOracle oracle;
  std::atomic<int> out_of_order{0};
  std::atomic<int> done{0};
};

TEST(LaneThreads, NobodyIsLostAndTheLimitHoldsWhileManyEnterAndTake) {
  constexpr int kEach = 20'000;
  for (const unsigned limit : {1U, 2U, 3U}) {
    Crew crew(limit);
    Lane lane(crew, "key", 1, {.running = limit});
    std::vector<Ticket> tickets(4 * kEach);
    std::vector<std::thread> threads;
    for (std::size_t half = 0; half < 4; ++half) {
      threads.emplace_back([&, half] {
        for (std::size_t i = 0; i < kEach; ++i) {
          if (lane.enter(tickets[half * kEach + i]) == Lane::Entered::kNeedsTurn) {
            crew.queue.push(lane);
          }
        }
      });
    }
    for (int i = 0; i < 3; ++i) threads.emplace_back([&] { crew.work_until(4 * kEach); });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(crew.oracle.judged(), 4U * kEach);
    EXPECT_EQ(crew.oracle.exceeded(), 0U);
    EXPECT_EQ(lane.counts().succeeded, 4U * kEach);
  }
}

TEST(LaneThreads, OneWhoEntersInOrderIsServedInOrder) {
  constexpr int kTickets = 50'000;
  Crew crew(1);
  crew.in_order = true;
  Lane lane(crew, "key", 1, {.running = 1});
  std::vector<Ticket> tickets(kTickets);
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back([&] { crew.work_until(kTickets); });
  for (int i = 0; i < kTickets; ++i) {
    Ticket& ticket = tickets[static_cast<std::size_t>(i)];
    ticket.number = i;
    if (lane.enter(ticket) == Lane::Entered::kNeedsTurn) crew.queue.push(lane);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(crew.out_of_order, 0);
  EXPECT_EQ(crew.oracle.exceeded(), 0U);
}

TEST(LaneThreads, NobodyIsLostAndTheLimitHoldsWhileSomeLeaveAndTheLimitChanges) {
  constexpr int kTickets = 40'000;
  constexpr int kInside = 32;  // each limit is soon in force for newcomers
  Crew crew(1);
  crew.lingers = true;
  Lane lane(crew, "key", 1, {.running = 1});
  std::vector<Ticket> tickets(kTickets);
  std::atomic<bool> entered_all{false};
  std::thread changer([&] {
    for (std::uint32_t limit = 1; !entered_all.load(); limit = 1 + limit % 4) {
      crew.oracle.change(limit, [&] {
        if (lane.set_limits({.running = limit}).post_turn) crew.queue.push(lane);
      });
      const std::uint64_t enough = crew.oracle.judged() + 5;
      while (crew.oracle.judged() < enough && !entered_all.load()) std::this_thread::yield();
    }
  });
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { crew.work_until(kTickets); });
  for (int i = 0; i < kTickets; ++i) {
    while (i - crew.done.load() > kInside) std::this_thread::yield();
    Ticket& ticket = tickets[static_cast<std::size_t>(i)];
    ticket.number = static_cast<int>(crew.oracle.next_number());
    if (lane.enter(ticket) == Lane::Entered::kNeedsTurn) crew.queue.push(lane);
    if (i % 3 == 0 && i > 8 && lane.withdraw((&ticket)[-8])) crew.done.fetch_add(1);
  }
  entered_all = true;
  changer.join();
  for (std::thread& thread : threads) thread.join();
  const LaneCounts counts = lane.counts();
  EXPECT_EQ(counts.succeeded + counts.cancelled, static_cast<std::uint64_t>(kTickets));
  EXPECT_EQ(counts.running + counts.waiting, 0U);
  EXPECT_GT(crew.oracle.judged(), 1000U);
  EXPECT_EQ(crew.oracle.exceeded(), 0U);
}

}  // namespace
}  // namespace keyway
