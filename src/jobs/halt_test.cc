#include "jobs/halt.h"

#include <gtest/gtest.h>

namespace keyway::jobs {
namespace {

TEST(Halt, ANumberIsReachedByFailures) {
  const Halt three{.when = Halt::When::kSoon, .fail = 3};
  EXPECT_FALSE(halt_is_reached(three, 2, 1000));
  EXPECT_TRUE(halt_is_reached(three, 3, 1000));
  EXPECT_FALSE(halt_is_reached({}, 1000, 1000));
}

TEST(Halt, APercentageIsOfThoseThatEndedAndNeedsTenOfThem) {
  const Halt tenth{.when = Halt::When::kSoon, .fail = 10, .percent = true};
  EXPECT_FALSE(halt_is_reached(tenth, 9, 9));
  EXPECT_TRUE(halt_is_reached(tenth, 1, 10));
  EXPECT_FALSE(halt_is_reached(tenth, 1, 11));
  EXPECT_FALSE(halt_is_reached({.when = Halt::When::kSoon, .fail = 0, .percent = true}, 0, 10));
}

}  // namespace
}  // namespace keyway::jobs
