#include "stream/ledger.h"

#include <deque>
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "support/memory.h"

namespace keyway {
namespace {

using State = Ledger::State;

TEST(Ledger, DoesNotPassARecordThatIsNotDone) {
  Ledger ledger({.watermark = 0});
  auto& first = ledger.add(0, 1);
  auto& second = ledger.add(1, 2);
  auto& third = ledger.add(2, 3);
  EXPECT_EQ(ledger.watermark(), 0);
  third.settle(State::kDone);
  second.settle(State::kDead);
  EXPECT_EQ(ledger.watermark(), 0);
  EXPECT_EQ(ledger.snapshot().done_above, (GapMap{{1, 3}}));
  first.settle(State::kDone);
  EXPECT_EQ(ledger.watermark(), 3);
  EXPECT_EQ(ledger.snapshot(), (Progress{.watermark = 3}));
  EXPECT_EQ(ledger.window(), 0U);
}

TEST(Ledger, CountsWhatIsNotThereAsDone) {
  Ledger ledger({.watermark = 10});
  auto& first = ledger.add(12, 13);  // 10 and 11 do not exist
  auto& second = ledger.add(20, 21);
  EXPECT_EQ(ledger.watermark(), 12);
  second.settle(State::kDone);
  EXPECT_EQ(ledger.snapshot(), (Progress{.watermark = 12, .done_above = {{20, 21}}}));
  first.settle(State::kDone);
  EXPECT_EQ(ledger.watermark(), 21);
}

TEST(Ledger, KeepsWhatWasDoneBeforeUntilItIsReachedAgain) {
  Ledger ledger({.watermark = 5, .done_above = {{7, 9}, {12, 20}}});
  auto& five = ledger.add(5, 6);
  EXPECT_EQ(ledger.snapshot(), (Progress{.watermark = 5, .done_above = {{7, 9}, {12, 20}}}));
  auto& six = ledger.add(6, 7);
  auto& nine = ledger.add(9, 10);  // the source left out what is done
  six.settle(State::kDone);
  EXPECT_EQ(ledger.snapshot(), (Progress{.watermark = 5, .done_above = {{6, 9}, {12, 20}}}));
  five.settle(State::kDone);
  nine.settle(State::kDone);
  EXPECT_EQ(ledger.snapshot(), (Progress{.watermark = 10, .done_above = {{12, 20}}}));
}

TEST(Ledger, CountsStatesAndGaps) {
  Ledger ledger({});
  std::vector<Ledger::Entry*> entries;
  for (Offset i = 0; i < 6; ++i) entries.push_back(&ledger.add(i, i + 1));
  entries[1]->settle(State::kDone);
  entries[2]->set_retrying(true);
  entries[3]->settle(State::kDead);
  entries[4]->settle(State::kDone);
  const Ledger::Counts counts = ledger.counts();
  EXPECT_EQ(counts.pending, 2U);
  EXPECT_EQ(counts.retrying, 1U);
  EXPECT_EQ(counts.done_above, 3U);
  EXPECT_EQ(counts.gaps, 2U);
}

TEST(Ledger, WhatWasDoneBeforeStaysDoneBehindWhatIsNot) {
  Ledger ledger({.watermark = 10, .done_above = {{20, 40}, {50, 60}, {90, 95}}});
  ledger.add(10, 20);
  EXPECT_EQ(ledger.snapshot().done_above, (GapMap{{20, 40}, {50, 60}, {90, 95}}));
  Ledger::Entry& third = ledger.add(40, 50);
  EXPECT_EQ(ledger.snapshot().done_above, (GapMap{{20, 40}, {50, 60}, {90, 95}}));
  ledger.add(60, 70);
  EXPECT_EQ(ledger.snapshot().done_above, (GapMap{{20, 40}, {50, 60}, {90, 95}}));
  third.settle(State::kDone);
  EXPECT_EQ(ledger.snapshot().done_above, (GapMap{{20, 60}, {90, 95}}));
}

TEST(Ledger, AgreesWithASetOfOffsetsWhateverTheOrder) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 random(seed);
    const auto below = [&](std::uint64_t bound) { return random() % bound; };
    Ledger ledger({});
    std::deque<Ledger::Entry*> open;
    std::set<Offset> incomplete;
    Offset next = 0;
    for (int step = 0; step < 400; ++step) {
      if (below(2) == 0) {
        const auto end = next + 1 + static_cast<Offset>(below(3));
        open.push_back(&ledger.add(next, end));
        incomplete.insert(next);
        next = end;
      } else if (!open.empty()) {
        const auto at = open.begin() + static_cast<long>(below(open.size()));
        incomplete.erase((*at)->offset());
        (*at)->settle(below(5) == 0 ? State::kDead : State::kDone);
        open.erase(at);
      }
      const Progress progress = ledger.snapshot();
      ASSERT_EQ(progress.watermark, incomplete.empty() ? next : *incomplete.begin())
          << "seed " << seed;
      for (Offset offset = progress.watermark; offset < next; ++offset) {
        // An offset in the middle of a record belongs to it.
        const auto after = incomplete.upper_bound(offset);
        if (incomplete.contains(offset)) {
          ASSERT_FALSE(contains(progress.done_above, offset)) << "seed " << seed;
        } else if (after == incomplete.begin()) {
          ASSERT_TRUE(contains(progress.done_above, offset)) << "seed " << seed;
        }
      }
    }
  }
}

TEST(Ledger, FreesWhatLiesBelowTheWatermark) {
  KEYWAY_SKIP_IF_SANITIZED();
  Ledger ledger({});
  const auto pass = [&](Offset from, Offset to) {
    for (Offset i = from; i < to; ++i) {
      ledger.add(i, i + 1).settle(State::kDone);
      if (i % 1000 == 0) ledger.watermark();
    }
  };
  pass(0, 1'000'000);
  const std::int64_t before = resident_bytes();
  pass(1'000'000, 5'000'000);
  EXPECT_LT(resident_bytes() - before, 256 * 1024);
}

}  // namespace
}  // namespace keyway
