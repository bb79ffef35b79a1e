#include "dead/discard.h"

#include "dead/letter_fixture.h"
#include "jobs/held_folder.h"

namespace keyway::dead {
namespace {

using Discard = LetterFixture;

TEST_F(Discard, ByIdByKeyByCauseAndAll) {
  const std::vector<TestLetter> all = {{"f:1", "a", "x", 1, "exit 1"},
                                       {"f:2", "b", "x", 1, "exit 2"},
                                       {"f:3", "a", "x", 1, "timed out"}};
  const auto left_after = [&](const Selection& selection) {
    write(all);
    EXPECT_TRUE(discard(folder.path(), file, selection));
    return listed();
  };
  EXPECT_EQ(left_after({.ids = {"f:1", "f:2"}}), (Listed{"f:3/1"}));
  EXPECT_EQ(left_after({.key = "a"}), (Listed{"f:2/1"}));
  EXPECT_EQ(left_after({.cause = "exit"}), (Listed{"f:3/1"}));
  EXPECT_EQ(left_after({.key = "a", .cause = "exit"}), (Listed{"f:2/1", "f:3/1"}));
  EXPECT_EQ(left_after({.ids = {"f:1"}, .key = "b"}), (Listed{"f:1/1", "f:2/1", "f:3/1"}));
  EXPECT_EQ(left_after({}), Listed{});
}

TEST_F(Discard, WithAnIdThatNoLetterHasNothingIsRemoved) {
  write({{"f:1"}, {"f:2"}});
  const Result<Discarded> refused = discard(folder.path(), file, {.ids = {"f:1", "f:7"}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(refused.error().message.find("no dead letter f:7"), std::string::npos);
  EXPECT_EQ(listed(), (Listed{"f:1/1", "f:2/1"}));
}

TEST_F(Discard, SaysHowManyWentAndHowManyAreLeft) {
  write({{"f:1"}, {"f:2"}, {"f:3"}});
  const Result<Discarded> done = discard("", file, {.ids = {"f:2"}});
  ASSERT_TRUE(done);
  EXPECT_EQ(done->letters, 1U);
  EXPECT_EQ(done->left, 2U);
}

TEST_F(Discard, AFolderThatARunHoldsIsLeftAlone) {
  write({{"f:1"}});
  jobs::HeldFolder run_of_another(folder.path());
  ASSERT_TRUE(run_of_another.is_held());
  const Result<Discarded> refused = discard(folder.path(), file, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kConflict);
  run_of_another.release();
  EXPECT_EQ(listed(), (Listed{"f:1/1"}));
  EXPECT_TRUE(discard(folder.path(), file, {}));
}

}  // namespace
}  // namespace keyway::dead
