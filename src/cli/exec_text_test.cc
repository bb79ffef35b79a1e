#include "cli/exec_text.h"

#include <gtest/gtest.h>

namespace keyway::cli {
namespace {

using exec::Holder;
using exec::Occupancy;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

TEST(ExecText, NamesTheHoldersAndHowLongTheyRun) {
  const Occupancy two{.holders = {{811, "pg_dump", minutes(4)}, {902, "psql", seconds(9)}}};
  EXPECT_EQ(full_error({.key = "db", .limit = 2}, two).message,
            "key \"db\" is full: 2 of 2 held by pid 811 (pg_dump, 4m), pid 902 (psql, 9s)\n"
            "try: --wait 5m");
}

TEST(ExecText, SuggestsToWaitLongerThanItDid) {
  EXPECT_TRUE(full_error({.wait = seconds(10)}, {}).message.ends_with("\ntry: --wait 5m"));
  EXPECT_TRUE(full_error({.wait = minutes(5)}, {})
                  .message.ends_with("\ntry: no --wait, to wait as long as it takes"));
}

TEST(ExecText, SaysWhatElseThereIsToKnow) {
  EXPECT_EQ(occupancy_text({.holders = {{7, "a", hours(3)}}, .waiting = 2}, 3),
            "1 of 3 held by pid 7 (a, 3h); 2 waiting in front");
  EXPECT_EQ(occupancy_text({.waiting = 1}, 3), "0 of 3 held; 1 waiting in front");
  EXPECT_EQ(occupancy_text({.holders = {{7, "a", hours(50), /*is_gone=*/true}, {}}}, 1),
            "2 of 1 held by pid 7 (a, 2d, ended, but what it started goes on), "
            "a process of unknown id");
  EXPECT_EQ(occupancy_text({.holders = std::vector<Holder>(7, {7, "a", seconds(-1)})}, 7),
            "7 of 7 held by pid 7 (a, 0s), pid 7 (a, 0s), pid 7 (a, 0s), pid 7 (a, 0s), "
            "pid 7 (a, 0s) and 2 more");
}

TEST(ExecText, IsSafeOnATerminal) {
  const Occupancy one{.holders = {{7, "\x1b[2J", seconds(1)}}};
  EXPECT_EQ(full_error({.key = "a\nb"}, one).message,
            "key \"a\\nb\" is full: 1 of 1 held by pid 7 (\\x1b[2J, 1s)\ntry: --wait 5m");
}

}  // namespace
}  // namespace keyway::cli
