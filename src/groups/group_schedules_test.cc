// Random operations on a group executor, in random order, under virtual time: see schedules/group_schedule.h.
#include <gtest/gtest.h>

#include "groups/schedules/group_schedule.h"
#include "support/schedules.h"

namespace keyway {
namespace {

// Four parts, so that they run side by side.
class GroupSchedules : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(GroupSchedules, KeepWhatMustAlwaysBeTrue) {
  expect_schedules_hold<GroupSchedule>(GetParam(), 12'500);
}
INSTANTIATE_TEST_SUITE_P(Part, GroupSchedules, ::testing::Values(0, 1, 2, 3));

TEST(GroupSchedulesWithAPlantedBug, FindALostWakeUpAndReplayIt) {
  expect_planted_bug_is_found<GroupSchedule>("a wake-up was lost");
}

}  // namespace
}  // namespace keyway
