#include "batch/group_watch.h"

#include <gtest/gtest.h>

namespace keyway::batch {
namespace {

using namespace std::chrono_literals;

TimePoint at(Duration time) { return TimePoint(1h) + time; }

TEST(GroupWatch, AGroupBindsWhileItIsFullAndSomebodyWaits) {
  GroupWatch watch([](std::string_view) { return 1; });
  auto& db = watch.enter("db", at(0s));
  watch.enter("db", at(0s));
  EXPECT_EQ(watch.waiting_groups(), 1u);
  watch.start(db, 1, at(1s));  // from now on it binds: the second one waits
  watch.end(db, 1, at(4s));
  watch.start(db, 1, at(5s));  // nobody waits any more
  EXPECT_EQ(watch.waiting_groups(), 0u);
  watch.end(db, 1, at(9s));
  const auto bound = watch.longest_bound(at(9s));
  ASSERT_TRUE(bound);
  EXPECT_EQ(bound->group, "db");
  EXPECT_EQ(bound->time, 3s);
  EXPECT_EQ(bound->jobs, 2u);
}

TEST(GroupWatch, AGroupWithRoomDoesNotBind) {
  GroupWatch watch([](std::string_view) { return 2; });
  auto& web = watch.enter("web", at(0s));
  watch.enter("web", at(0s));
  watch.start(web, 1, at(0s));  // the other one waits, but not for this group
  watch.end(web, 1, at(5s));
  EXPECT_FALSE(watch.longest_bound(at(5s)));
}

TEST(GroupWatch, OneThatBindsNowCountsUpToNow) {
  GroupWatch watch([](std::string_view) { return 1; });
  auto& db = watch.enter("db", at(0s));
  watch.enter("db", at(0s));
  watch.start(db, 1, at(0s));
  EXPECT_EQ(watch.longest_bound(at(2s))->time, 2s);
  EXPECT_EQ(watch.longest_bound(at(3s))->time, 3s);
}

TEST(GroupWatch, AJobThatRestsNeitherWaitsNorRuns) {
  GroupWatch watch([](std::string_view) { return 1; });
  auto& db = watch.enter("db", at(0s));
  watch.start(db, 1, at(0s));
  watch.rest(db, 1, at(1s));
  EXPECT_EQ(watch.waiting_groups(), 0u);
  watch.again(db, at(2s));
  EXPECT_EQ(watch.waiting_groups(), 1u);
  watch.give_up(db, at(3s), /*rested=*/false);
  EXPECT_EQ(watch.waiting_groups(), 0u);
  EXPECT_FALSE(watch.longest_bound(at(3s)));
}

TEST(GroupWatch, TheLongestIsFoundAmongManyThatComeAndGo) {
  GroupWatch watch([](std::string_view) { return 1; });
  Duration now{0};
  for (int i = 0; i < 5'000; ++i) {
    const std::string name = i % 10 == 0 ? "hot" : "g" + std::to_string(i);
    auto& group = watch.enter(name, at(now));
    watch.enter(name, at(now));
    watch.start(group, 1, at(now));
    now += name == "hot" ? 100ms : 1ms;
    watch.end(group, 1, at(now));
    watch.start(group, 1, at(now));
    watch.end(group, 1, at(now));
  }
  const auto bound = watch.longest_bound(at(now));
  ASSERT_TRUE(bound);
  EXPECT_EQ(bound->group, "hot");
  EXPECT_EQ(bound->time, 500 * 100ms);
  EXPECT_EQ(bound->jobs, 1000u);
}

}  // namespace
}  // namespace keyway::batch
