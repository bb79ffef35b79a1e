#include "runtime/idle_protocol.h"

#include <tuple>

#include <gtest/gtest.h>

namespace keyway {
namespace {

// Counts as a tuple: threads, parked, searching.
std::tuple<unsigned, unsigned, unsigned> seen(const IdleProtocol& protocol) {
  const IdleCounts counts = protocol.counts();
  return {counts.threads, counts.parked, counts.searching};
}

TEST(IdleProtocol, AThreadStartsAsASearcher) {
  IdleProtocol protocol;
  protocol.thread_started();
  protocol.thread_started();
  EXPECT_EQ(seen(protocol), std::tuple(2, 0, 2));
  EXPECT_EQ(protocol.counts().active(), 2U);
}

TEST(IdleProtocol, OnlyOneMayStartToSearch) {
  IdleProtocol protocol;
  protocol.thread_started();
  protocol.thread_started();
  protocol.stop_searching();
  EXPECT_FALSE(protocol.start_searching()) << "somebody searches already";
  protocol.stop_searching();
  EXPECT_TRUE(protocol.start_searching());
  EXPECT_FALSE(protocol.start_searching());
  EXPECT_EQ(seen(protocol), std::tuple(2, 0, 1));
}

TEST(IdleProtocol, TheLastSearcherIsToldSo) {
  IdleProtocol protocol;
  protocol.thread_started();
  protocol.thread_started();
  EXPECT_FALSE(protocol.stop_searching());
  EXPECT_TRUE(protocol.stop_searching());
}

TEST(IdleProtocol, AParkedThreadIsNotActiveAndASearcherThatParksSearchesNoMore) {
  IdleProtocol protocol;
  protocol.thread_started();
  protocol.thread_started();
  protocol.stop_searching();
  protocol.park(/*was_searching=*/true);
  EXPECT_EQ(seen(protocol), std::tuple(2, 1, 0));
  protocol.park(/*was_searching=*/false);
  EXPECT_EQ(protocol.counts().active(), 0U);
  protocol.unpark_to_search();
  EXPECT_EQ(seen(protocol), std::tuple(2, 1, 1));
  protocol.thread_ended_parked();
  EXPECT_EQ(seen(protocol), std::tuple(1, 0, 1));
}

TEST(IdleProtocol, ASurplusThreadParksOnlyWhileEnoughOthersAreActive) {
  IdleProtocol protocol;
  for (int i = 0; i < 3; ++i) {
    protocol.thread_started();
    protocol.stop_searching();
  }
  EXPECT_TRUE(protocol.park_surplus(2));
  EXPECT_FALSE(protocol.park_surplus(2));
  EXPECT_EQ(seen(protocol), std::tuple(3, 1, 0));
}

TEST(IdleProtocol, AThreadThatEndsIsCountedNoMore) {
  IdleProtocol protocol;
  protocol.thread_started();
  protocol.stop_searching();
  protocol.thread_ended();
  EXPECT_EQ(seen(protocol), std::tuple(0, 0, 0));
}

}  // namespace
}  // namespace keyway
