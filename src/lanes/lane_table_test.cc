#include "lanes/lane_table.h"

#include <array>
#include <atomic>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <malloc.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "keyway/detail/block_pool.h"
#include "lanes/ready_queue.h"
#include "support/memory.h"

namespace keyway {
namespace {

using Entered = LaneTable::Entered;

struct NoOwner final : LaneOwner {
  void run_turn(Lane&, Turn&) override {}
  bool are_current(const LaneLimits& limits, std::size_t) const override {
    return limits.version == version;
  }
  std::uint64_t version = 0;
};

class LaneTableTest : public ::testing::Test {
 protected:
  LaneTable::Entry enter(std::string_view key, Waiter& waiter, const LaneLimits* limits) {
    return table_.enter(key, LaneTable::hash(key), waiter, limits);
  }
  // As a worker that was given the turn: takes everybody, and reports an idle lane.
  void run_all(Lane& lane) {
    const std::size_t hash = lane.hash();
    LaneTake taken = lane.take();
    while (taken.waiter != nullptr) taken = lane.finish(LaneOutcome::kSucceeded, /*go_on=*/true);
    if (taken.idle) table_.seen_idle(&lane, hash);
  }
  // One waiter goes through the lane of `key`.
  void visit(std::string_view key) {
    Waiter waiter;
    const LaneTable::Entry entry = enter(key, waiter, &kOne);
    ASSERT_EQ(entry.entered, Entered::kIn);
    ASSERT_NE(entry.needs_turn, nullptr);
    run_all(*entry.needs_turn);
  }
  bool has_lane(std::string_view key) {
    return table_.with_lane(key, LaneTable::hash(key), [](Lane* lane) { return lane != nullptr; });
  }
  std::size_t lane_count() {
    std::size_t count = 0;
    table_.for_each([&](Lane&) { ++count; });
    return count;
  }
  // So many idle lanes that the next one is freed at once.
  void fill_warm_places() {
    for (std::size_t i = 0; i < 4 * LaneTable::kWarmLanes; ++i) visit("warm-" + std::to_string(i));
  }

  static constexpr LaneLimits kOne{.running = 1};
  NoOwner owner_;
  LaneTable table_{owner_};
  std::array<Waiter, 4> waiters_;
};

TEST_F(LaneTableTest, ALaneIsMadeByItsFirstWaiterWhichMustBringLimits) {
  EXPECT_FALSE(has_lane("a"));
  EXPECT_EQ(enter("a", waiters_[0], nullptr).entered, Entered::kNeedsLimits);
  EXPECT_FALSE(has_lane("a"));
  const LaneLimits limits{.running = 7};
  const LaneTable::Entry entry = enter("a", waiters_[0], &limits);
  EXPECT_EQ(entry.entered, Entered::kIn);
  ASSERT_NE(entry.needs_turn, nullptr);
  EXPECT_EQ(entry.needs_turn->key(), "a");
  EXPECT_EQ(entry.needs_turn->limits().running, 7U);
  run_all(*entry.needs_turn);
}

TEST_F(LaneTableTest, LaterWaitersFindTheSameLane) {
  Lane* lane = enter("a", waiters_[0], &kOne).needs_turn;
  const LaneTable::Entry second = enter("a", waiters_[1], nullptr);
  EXPECT_EQ(second.entered, Entered::kIn);
  EXPECT_EQ(second.needs_turn, nullptr) << "its turn is out already";
  EXPECT_EQ(lane->counts().waiting, 2U);
  EXPECT_EQ(lane_count(), 1U);
  run_all(*lane);
}

TEST_F(LaneTableTest, KeysWithOneHashHaveLanesOfTheirOwn) {
  Lane* first = table_.enter("a", 42, waiters_[0], &kOne).needs_turn;
  Lane* second = table_.enter("b", 42, waiters_[1], &kOne).needs_turn;
  ASSERT_NE(first, nullptr);
  ASSERT_NE(second, nullptr);
  EXPECT_NE(first, second);
  EXPECT_EQ(table_.with_lane("a", 42, [](Lane* lane) { return lane; }), first);
  EXPECT_EQ(table_.with_lane("b", 42, [](Lane* lane) { return lane; }), second);
  run_all(*first);
  run_all(*second);
  table_.forget_if_idle(first, 42);
  EXPECT_EQ(table_.with_lane("b", 42, [](Lane* lane) { return lane; }), second);
}

TEST_F(LaneTableTest, AKeyThatComesBackSoonFindsItsLaneWarm) {
  visit("a");
  EXPECT_TRUE(has_lane("a"));
  EXPECT_EQ(enter("a", waiters_[0], nullptr).entered, Entered::kIn) << "no limits were needed";
  table_.with_lane("a", LaneTable::hash("a"), [&](Lane* lane) {
    lane->take();
    lane->finish(LaneOutcome::kSucceeded, true);
  });
}

TEST_F(LaneTableTest, NoMoreIdleLanesAreKeptThanTheWarmBound) {
  for (int i = 0; i < 20'000; ++i) visit("key-" + std::to_string(i));
  EXPECT_LE(lane_count(), LaneTable::kWarmLanes);
  EXPECT_GT(lane_count(), LaneTable::kWarmLanes / 2) << "the places are not used";
}

TEST_F(LaneTableTest, BeyondTheWarmBoundALaneIsFreedTheMomentItIsIdle) {
  fill_warm_places();
  visit("a");
  EXPECT_FALSE(has_lane("a"));
}

TEST_F(LaneTableTest, ALaneWithSomebodyInsideStaysWhereItIs) {
  fill_warm_places();
  Lane* lane = enter("a", waiters_[0], &kOne).needs_turn;
  const std::size_t hash = lane->hash();
  table_.seen_idle(lane, hash);
  table_.forget_if_idle(lane, hash);
  EXPECT_TRUE(has_lane("a")) << "somebody waits";
  lane->take();
  table_.forget_if_idle(lane, hash);
  EXPECT_TRUE(has_lane("a")) << "somebody runs";
  lane->finish(LaneOutcome::kSucceeded, true);
  table_.seen_idle(lane, hash);
  EXPECT_FALSE(has_lane("a"));
}

TEST_F(LaneTableTest, ForgettingAnIdleLaneDoesNotLeaveItWarm) {
  visit("a");
  const Lane* lane = table_.with_lane("a", LaneTable::hash("a"), [](Lane* found) { return found; });
  table_.forget_if_idle(lane, LaneTable::hash("a"));
  EXPECT_FALSE(has_lane("a"));
  table_.forget_if_idle(lane, LaneTable::hash("a"));  // a lane that is gone: nothing happens
}

TEST_F(LaneTableTest, ForgetIdleFreesEveryLaneThatIsIdleAndNoOther) {
  for (int i = 0; i < 1000; ++i) visit("key-" + std::to_string(i));
  Lane& pinned = *table_.pin("key-7", LaneTable::hash("key-7"), kOne);
  const LaneTable::Entry waits = enter("key-8", waiters_[0], &kOne);
  table_.forget_idle();
  EXPECT_EQ(lane_count(), 2U);
  EXPECT_TRUE(has_lane("key-7"));
  EXPECT_TRUE(has_lane("key-8"));
  EXPECT_EQ(table_.counts().succeeded, 1000U);
  run_all(*waits.needs_turn);
  table_.unpin(pinned);
  table_.forget_idle();
  EXPECT_EQ(lane_count(), 0U);
}

TEST_F(LaneTableTest, APinnedLaneStaysUntilItIsUnpinned) {
  fill_warm_places();
  const std::size_t hash = LaneTable::hash("a");
  Lane& lane = *table_.pin("a", hash, kOne);
  table_.pin(lane);
  EXPECT_EQ(LaneTable::enter(lane, waiters_[0]).needs_turn, &lane);
  run_all(lane);
  table_.forget_if_idle(&lane, hash);
  EXPECT_TRUE(has_lane("a"));
  table_.unpin(lane);
  EXPECT_TRUE(has_lane("a")) << "it was pinned twice";
  table_.unpin(lane);
  EXPECT_FALSE(has_lane("a"));
}

TEST_F(LaneTableTest, PinExistingMakesNoLane) {
  EXPECT_EQ(table_.pin_existing("a", LaneTable::hash("a")), nullptr);
  visit("a");
  Lane* lane = table_.pin_existing("a", LaneTable::hash("a"));
  ASSERT_NE(lane, nullptr);
  table_.forget_if_idle(lane, lane->hash());
  EXPECT_TRUE(has_lane("a"));
  table_.unpin(*lane);
}

TEST_F(LaneTableTest, PinAllPinsEveryLane) {
  for (int i = 0; i < 100; ++i) visit("key-" + std::to_string(i));
  const std::vector<Lane*> lanes = table_.pin_all();
  EXPECT_EQ(lanes.size(), 100U);
  for (Lane* lane : lanes) table_.forget_if_idle(lane, lane->hash());
  EXPECT_EQ(lane_count(), 100U);
  for (Lane* lane : lanes) table_.unpin(*lane);
}

TEST_F(LaneTableTest, ALaneIsMadeOnlyWithTheNewestLimits) {
  owner_.version = 1;
  EXPECT_EQ(enter("a", waiters_[0], &kOne).entered, Entered::kNeedsLimits);
  EXPECT_EQ(table_.pin("a", LaneTable::hash("a"), kOne), nullptr);
  EXPECT_FALSE(has_lane("a"));
  const LaneLimits newest{.waiting = 7, .version = 1};
  Lane* lane = enter("a", waiters_[0], &newest).needs_turn;
  ASSERT_NE(lane, nullptr);
  EXPECT_EQ(lane->limits().waiting, 7U);
  EXPECT_EQ(enter("a", waiters_[1], &kOne).entered, Entered::kIn) << "there is a lane";
  EXPECT_EQ(table_.pin("a", LaneTable::hash("a"), kOne), lane);
  table_.unpin(*lane);
  run_all(*lane);
}

TEST_F(LaneTableTest, AFullLaneSaysSo) {
  const LaneLimits tight{.running = 1, .waiting = 0};
  Lane* lane = enter("a", waiters_[0], &tight).needs_turn;
  EXPECT_EQ(enter("a", waiters_[1], nullptr).entered, Entered::kFull);
  EXPECT_EQ(LaneTable::enter(*lane, waiters_[1]).entered, Entered::kFull);
  run_all(*lane);
}

TEST_F(LaneTableTest, AfterCloseNobodyGetsIn) {
  visit("known");
  Lane& pinned = *table_.pin("pinned", LaneTable::hash("pinned"), kOne);
  table_.close();
  EXPECT_EQ(enter("known", waiters_[0], &kOne).entered, Entered::kClosed);
  EXPECT_EQ(enter("new", waiters_[0], &kOne).entered, Entered::kClosed);
  EXPECT_EQ(enter("new", waiters_[0], nullptr).entered, Entered::kClosed);
  EXPECT_EQ(LaneTable::enter(pinned, waiters_[0]).entered, Entered::kClosed);
  table_.unpin(pinned);
  Lane& late = *table_.pin("late", LaneTable::hash("late"), kOne);
  EXPECT_EQ(LaneTable::enter(late, waiters_[0]).entered, Entered::kClosed);
  table_.unpin(late);
}

TEST_F(LaneTableTest, WhatFreedLanesCountedIsNotForgotten) {
  for (int i = 0; i < 10'000; ++i) visit("key-" + std::to_string(i));
  LaneCounts counts = table_.counts();
  EXPECT_GT(counts.succeeded, 0U);
  EXPECT_EQ(counts.entered, 10'000U);
  EXPECT_EQ(counts.succeeded, 10'000U);
  EXPECT_EQ(counts.running + counts.waiting, 0U);
}

TEST_F(LaneTableTest, ManyKeysAtOnceLeaveNoMemoryBehind) {
  KEYWAY_SKIP_IF_SANITIZED();
  constexpr std::size_t kKeys = 300'000;
  std::vector<Waiter> waiters(kKeys);
  std::vector<Lane*> lanes(kKeys);
  fill_warm_places();
  const auto give_back_what_is_free = [] {
    detail::trim_blocks();
    malloc_trim(0);  // small arrays of buckets come from malloc, which would keep them for later
  };
  give_back_what_is_free();
  const std::int64_t before = resident_bytes();
  for (std::size_t i = 0; i < kKeys; ++i) {
    lanes[i] = enter("key-" + std::to_string(i), waiters[i], &kOne).needs_turn;
  }
  EXPECT_GT(resident_bytes() - before, static_cast<std::int64_t>(kKeys * sizeof(Lane)));
  EXPECT_GE(lane_count(), kKeys);
  for (Lane* lane : lanes) run_all(*lane);
  EXPECT_LE(lane_count(), LaneTable::kWarmLanes);
  table_.forget_idle();
  give_back_what_is_free();
  EXPECT_LT(resident_bytes() - before, 1 << 20) << "of " << (kKeys * sizeof(Lane) >> 20) << " MB";
}

using LaneTableDeathTest = LaneTableTest;

TEST_F(LaneTableDeathTest, ATableIsNotDestroyedWithSomebodyInside) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        LaneTable table(owner_);
        table.enter("a", 1, waiters_[0], &kOne);
      },
      "somebody inside a lane");
}

TEST_F(LaneTableDeathTest, ATableIsNotDestroyedBeforeAHandleToItsLane) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        LaneTable table(owner_);
        table.pin("a", 1, kOne);
      },
      "before a GroupHandle");
}

// ---- many threads

// Lanes come and go under the hands of those who enter, run, pin and forget them.
struct Crew final : LaneOwner {
  void run_turn(Lane& lane, Turn&) override {
    const std::size_t hash = lane.hash();
    LaneTake taken = lane.take();
    if (taken.post_turn) queue.push(lane);
    while (taken.waiter != nullptr) {
      done.fetch_add(1);
      taken = lane.finish(LaneOutcome::kSucceeded, /*go_on=*/true);
      if (taken.post_turn) queue.push(lane);
    }
    if (taken.idle) table.forget_if_idle(&lane, hash);
  }
  ReadyQueue queue;
  std::atomic<int> done{0};
  LaneTable table{*this};
};

TEST(LaneTableThreads, NobodyIsLostWhileLanesComeAndGo) {
  constexpr int kEach = 30'000;
  constexpr int kEntering = 3;
  Crew crew;
  std::vector<Waiter> waiters(kEntering * kEach);
  std::vector<std::thread> threads;
  for (std::size_t part = 0; part < kEntering; ++part) {
    threads.emplace_back([&, part] {
      const LaneLimits limits{.running = 1};
      for (std::size_t i = 0; i < kEach; ++i) {
        const std::string key = "key-" + std::to_string(i % 7);
        const LaneTable::Entry entry =
            crew.table.enter(key, LaneTable::hash(key), waiters[part * kEach + i], &limits);
        ASSERT_EQ(entry.entered, Entered::kIn);
        if (entry.needs_turn != nullptr) crew.queue.push(*entry.needs_turn);
      }
    });
  }
  threads.emplace_back([&] {
    while (crew.done.load() < kEntering * kEach) {
      for (Lane* lane : crew.table.pin_all()) crew.table.unpin(*lane);
      crew.table.forget_idle();
      std::this_thread::yield();
    }
  });
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      Turn turn;
      while (crew.done.load() < kEntering * kEach) {
        if (Runnable* lane = crew.queue.pop()) {
          lane->run(turn);
        } else {
          std::this_thread::yield();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  LaneCounts counts = crew.table.counts();
  EXPECT_EQ(counts.succeeded, static_cast<std::uint64_t>(kEntering) * kEach);
  EXPECT_EQ(crew.queue.pop(), nullptr);
}

}  // namespace
}  // namespace keyway
