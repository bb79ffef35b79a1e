#include "dead/discard.h"

#include <sys/wait.h>
#include <unistd.h>

#include "dead/letter_fixture.h"
#include "jobs/state_folder.h"

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
  int gate[2] = {};
  int ready[2] = {};
  ASSERT_EQ(pipe(gate), 0);
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    close(gate[1]);
    const auto taken = jobs::StateFolder::take(folder.path());
    char byte = taken ? 'y' : 'n';
    (void)!::write(ready[1], &byte, 1);
    (void)!read(gate[0], &byte, 1);
    _exit(0);
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'y');
  const Result<Discarded> refused = discard(folder.path(), file, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kConflict);
  close(gate[1]);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(listed(), (Listed{"f:1/1"}));
  EXPECT_TRUE(discard(folder.path(), file, {}));
}

}  // namespace
}  // namespace keyway::dead
