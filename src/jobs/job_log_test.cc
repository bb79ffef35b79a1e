#include "jobs/job_log.h"

#include <map>

#include <unistd.h>

#include <gtest/gtest.h>

#include "support/temporary_folder.h"

namespace keyway::jobs {
namespace {

using std::chrono::milliseconds;

LoggedAttempt attempt_of(std::uint64_t seq, AttemptOutcome outcome, bool final) {
  LoggedAttempt attempt;
  attempt.id = "job \"" + std::to_string(seq) + "\"";
  attempt.seq = seq;
  attempt.key = attempt.group = "db";
  attempt.slot = 2;
  attempt.queued = LoggedAttempt::Time(milliseconds(1'794'740'863'120));
  attempt.start = attempt.queued + milliseconds(3);
  attempt.end = attempt.start + milliseconds(1204);
  attempt.outcome = outcome;
  attempt.final = final;
  return attempt;
}

std::map<std::uint64_t, bool> ended_in(const std::string& path) {
  std::map<std::uint64_t, bool> ended;
  const auto read = JobLog::read(path, [&](std::uint64_t seq, bool ok) { ended[seq] = ok; });
  EXPECT_TRUE(read.ok()) << read.error().message;
  return ended;
}

TEST(JobLog, ALineHasTheFieldsOfTheContractInOrder) {
  std::string line;
  append_log_line(line, attempt_of(7, AttemptOutcome::kOk, true));
  EXPECT_EQ(line,
            "{\"id\":\"job "
            "\\\"7\\\"\",\"seq\":7,\"key\":\"db\",\"group\":\"db\",\"slot\":2,\"attempt\":1,"
            "\"queued\":\"2026-11-15T11:07:43.120Z\",\"start\":\"2026-11-15T11:07:43.123Z\","
            "\"end\":\"2026-11-15T11:07:44.327Z\",\"wait_ms\":3,\"run_ms\":1204,\"exit\":0,"
            "\"signal\":0,\"outcome\":\"ok\",\"final\":true}\n");
}

TEST(JobLog, ASignalHasNoExitStatus) {
  LoggedAttempt attempt = attempt_of(7, AttemptOutcome::kTimedOut, true);
  attempt.signal = 15;
  std::string line;
  append_log_line(line, attempt);
  EXPECT_NE(line.find("\"exit\":null,\"signal\":15,\"outcome\":\"timeout\""), std::string::npos);
}

TEST(JobLog, TellsWhichJobsEnded) {
  const TemporaryFolder folder;
  const std::string path = folder.file("joblog.jsonl");
  EXPECT_TRUE(ended_in(path).empty()) << "no log is an empty one";
  auto log = JobLog::open(path);
  ASSERT_TRUE(log.ok());
  ASSERT_TRUE(log->append(attempt_of(1, AttemptOutcome::kRetry, false)).ok());
  ASSERT_TRUE(log->append(attempt_of(1, AttemptOutcome::kOk, true)).ok());
  ASSERT_TRUE(log->append(attempt_of(2, AttemptOutcome::kFailed, true)).ok());
  ASSERT_TRUE(log->append(attempt_of(3, AttemptOutcome::kCancelled, false)).ok());
  EXPECT_EQ(ended_in(path), (std::map<std::uint64_t, bool>{{1, true}, {2, false}}));
}

TEST(JobLog, ATornLastLineIsOverlookedAndCutOff) {
  const TemporaryFolder folder;
  std::string whole;
  append_log_line(whole, attempt_of(1, AttemptOutcome::kOk, true));
  for (const std::size_t cut : {std::size_t{1}, std::size_t{20}, whole.size() - 1}) {
    const std::string path = folder.write("log", whole + whole.substr(0, cut));
    EXPECT_EQ(ended_in(path).size(), 1u);
    auto log = JobLog::open(path);
    ASSERT_TRUE(log.ok());
    EXPECT_EQ(folder.read("log"), whole);
    ASSERT_TRUE(log->append(attempt_of(2, AttemptOutcome::kOk, true)).ok());
    EXPECT_EQ(ended_in(path).size(), 2u);
  }
}

TEST(JobLog, ALogOfOneTornLineIsEmpty) {
  const TemporaryFolder folder;
  const std::string path = folder.write("log", std::string(10'000, 'x'));
  EXPECT_TRUE(ended_in(path).empty());
  ASSERT_TRUE(JobLog::open(path).ok());
  EXPECT_EQ(folder.read("log"), "");
}

TEST(JobLog, ADamagedLineInTheMiddleIsAnError) {
  const TemporaryFolder folder;
  std::string text = "garbage\n";
  append_log_line(text, attempt_of(1, AttemptOutcome::kOk, true));
  const auto read = JobLog::read(folder.write("log", text), [](std::uint64_t, bool) {});
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, ErrorCode::kConflict);
  EXPECT_NE(read.error().message.find("log:1: this is no line of a joblog"), std::string::npos);
}

TEST(JobLog, AFullDiskIsAnErrorThatNamesTheFile) {
  const TemporaryFolder folder;
  const std::string path = folder.file("log");
  ASSERT_EQ(symlink("/dev/full", path.c_str()), 0);
  auto log = JobLog::open(path);
  ASSERT_TRUE(log.ok());
  const auto written = log->append(attempt_of(1, AttemptOutcome::kOk, true));
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.error().message, "cannot write " + path + ": No space left on device");
}

TEST(JobLog, WhatIsAddedIsWrittenTogetherByAFlush) {
  const TemporaryFolder folder;
  const std::string path = folder.file("joblog.jsonl");
  Result<JobLog> log = JobLog::open(path);
  ASSERT_TRUE(log);
  EXPECT_FALSE(log->add(attempt_of(1, AttemptOutcome::kOk, true)));
  EXPECT_FALSE(log->add(attempt_of(2, AttemptOutcome::kFailed, true)));
  EXPECT_EQ(folder.read("joblog.jsonl"), "");
  EXPECT_TRUE(log->flush());
  EXPECT_EQ(ended_in(path), (std::map<std::uint64_t, bool>{{1, true}, {2, false}}));
  std::uint64_t seq = 2;
  while (!log->add(attempt_of(++seq, AttemptOutcome::kOk, true))) ASSERT_LT(seq, 10'000u);
  EXPECT_TRUE(log->flush());
  EXPECT_EQ(ended_in(path).size(), seq);
}

}  // namespace
}  // namespace keyway::jobs
