#include "batch/run_state.h"

#include <algorithm>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "support/temporary_folder.h"

namespace keyway::batch {
namespace {

class RunStateTest : public ::testing::Test {
 protected:
  // A run of jobs with these fingerprints, of which some were ok and the others failed.
  void earlier_run(const std::vector<std::uint64_t>& jobs, const std::vector<std::uint64_t>& ok) {
    auto state = RunState::open(path_, false);
    ASSERT_TRUE(state.ok()) << state.error().message;
    ASSERT_TRUE(state->match("jobs", jobs).ok());
    for (std::uint64_t seq = 1; seq <= jobs.size(); ++seq) {
      LoggedAttempt attempt;
      attempt.seq = seq;
      attempt.outcome =
          std::count(ok.begin(), ok.end(), seq) > 0 ? AttemptOutcome::kOk : AttemptOutcome::kFailed;
      ASSERT_TRUE(state->log().append(attempt).ok());
    }
  }
  // Of the next run, with these jobs.
  std::string match(const std::vector<std::uint64_t>& jobs, bool fresh = false) {
    auto state = RunState::open(path_, fresh);
    if (!state) return state.error().message;
    const auto matched = state->match("jobs", jobs);
    return matched ? std::to_string(state->done()) + " done" : matched.error().message;
  }

  TemporaryFolder folder_;
  const std::string path_ = folder_.file("jobs.jsonl.keyway");
};

TEST_F(RunStateTest, IsBesideTheFileUnlessToldOtherwise) {
  Options options;
  options.jobs_file = "a/jobs.jsonl";
  EXPECT_EQ(RunState::folder_of(options), "a/jobs.jsonl.keyway");
  options.jobs_file = "-";
  EXPECT_EQ(RunState::folder_of(options), "");
  options.name = "nightly";
  EXPECT_EQ(RunState::folder_of(options), "nightly.keyway");
  options.state_dir = "/s";
  EXPECT_EQ(RunState::folder_of(options), "/s");
}

TEST_F(RunStateTest, RemembersWhatIsDone) {
  earlier_run({11, 12, 13}, {1, 3});
  auto state = RunState::open(path_, false);
  ASSERT_TRUE(state.ok());
  EXPECT_TRUE(state->has_earlier_run());
  EXPECT_TRUE(state->is_done(1));
  EXPECT_FALSE(state->is_done(2));
  EXPECT_TRUE(state->is_done(3));
  EXPECT_FALSE(state->is_done(4));
  EXPECT_EQ(state->done(), 2u);
}

TEST_F(RunStateTest, LinesMayBeAddedAndFailedOnesCorrected) {
  earlier_run({11, 12, 13}, {1, 3});
  EXPECT_EQ(match({11, 12, 13}), "2 done");
  EXPECT_EQ(match({11, 99, 13, 14, 15}), "2 done");
  EXPECT_EQ(match({11, 98, 13}), "2 done") << "the addition is taken back";
}

TEST_F(RunStateTest, AnotherLineForADoneJobIsAConflict) {
  earlier_run({11, 12, 13}, {1, 3});
  for (const std::vector<std::uint64_t>& jobs :
       {std::vector<std::uint64_t>{10, 12, 13}, {11, 13}, {0, 11, 12, 13}, {11, 12}, {}}) {
    auto state = RunState::open(path_, false);
    ASSERT_TRUE(state.ok());
    const auto matched = state->match("jobs", jobs);
    ASSERT_FALSE(matched.ok());
    EXPECT_EQ(matched.error().code, ErrorCode::kConflict);
    EXPECT_NE(matched.error().message.find("try: --fresh"), std::string::npos);
  }
  EXPECT_EQ(match({11, 12, 13}), "2 done") << "a refused run leaves everything as it was";
}

TEST_F(RunStateTest, FreshForgetsTheEarlierRun) {
  earlier_run({11, 12}, {1, 2});
  EXPECT_EQ(match({21, 22}, /*fresh=*/true), "0 done");
  EXPECT_EQ(match({31}), "0 done");
}

TEST_F(RunStateTest, JobsThatComeOneByOneAreHeldAgainstTheSame) {
  {
    auto state = RunState::open(path_, false);
    ASSERT_TRUE(state.ok());
    for (std::uint64_t seq = 1; seq <= 3; ++seq) {
      ASSERT_TRUE(state->match_next("-", seq, 10 + seq).ok());
      LoggedAttempt attempt;
      attempt.seq = seq;
      ASSERT_TRUE(state->log().append(attempt).ok());
    }
  }
  auto state = RunState::open(path_, false);
  ASSERT_TRUE(state.ok());
  EXPECT_EQ(state->done(), 3u);
  EXPECT_TRUE(state->match_next("-", 1, 11).ok());
  EXPECT_EQ(state->match_next("-", 2, 99).error().code, ErrorCode::kConflict);
  EXPECT_TRUE(state->match_next("-", 4, 14).ok());
}

TEST_F(RunStateTest, IsHeldByOneRunAtATime) {
  const auto first = RunState::open(path_, false);
  ASSERT_TRUE(first.ok());
  const std::string holder = "another run, pid " + std::to_string(getpid()) + "\n";
  const pid_t child = fork();
  if (child == 0) {
    const auto second = RunState::open(path_, false);
    const bool refused = !second.ok() && second.error().code == ErrorCode::kConflict &&
                         second.error().message.find(holder) != std::string::npos;
    _exit(refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "the second run was not refused, or not told by whom";
}

TEST_F(RunStateTest, AJoblogWithoutItsFingerprintIsAConflict) {
  earlier_run({11}, {1});
  unlink((path_ + "/fingerprint").c_str());
  EXPECT_NE(match({11}).find("speaks of job 1"), std::string::npos) << match({11});
}

TEST_F(RunStateTest, AFolderOfSomethingElseIsAConflict) {
  earlier_run({11}, {1});
  folder_.write("jobs.jsonl.keyway/fingerprint", "something else entirely");
  EXPECT_NE(match({11}).find("is not of a batch"), std::string::npos);
}

TEST_F(RunStateTest, AFolderThatCannotBeMadeIsAnIoError) {
  const auto state = RunState::open("/proc/no/such", false);
  ASSERT_FALSE(state.ok());
  EXPECT_EQ(state.error().code, ErrorCode::kIo);
}

}  // namespace
}  // namespace keyway::batch
