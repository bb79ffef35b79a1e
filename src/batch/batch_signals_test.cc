// How a run is stopped from outside, in virtual time.
#include <csignal>

#include <unistd.h>

#include "batch/batch.h"
#include "batch/runner_fixture.h"
#include "support/batch_exit_code.h"

namespace keyway::batch {
namespace {

using Ends = std::vector<std::string>;

class StoppedRun : public RunnerTest {
 protected:
  StoppedRun() {
    options_.jobs = 1;
    options_.grace = 30s;
  }
  void signal_at(Duration time, int signal) {
    at(time, [signal](BatchRunner& runner) { runner.signal_received(signal); });
  }
};

TEST_F(StoppedRun, TheFirstSignalLetsFinishWhatRuns) {
  does_["long"] = {{.runs_for = 20s}};
  signal_at(1s, SIGINT);
  const Summary summary = run(jobs({"long", "never"}));
  EXPECT_EQ(ends(), (Ends{"long ok"}));
  EXPECT_EQ(summary.ending, Ending::kInterrupted);
  EXPECT_EQ(summary.not_run, 1u);
  EXPECT_EQ(summary.elapsed, 20s);
  EXPECT_EQ(exit_code(summary), 130);
  EXPECT_TRUE(signals_.empty());
  EXPECT_EQ(run(jobs({"long", "never"})).resumed_past, 1u) << "what was not run is left";
}

TEST_F(StoppedRun, WhatTakesLongerThanTheGraceIsEnded) {
  does_["long"] = {{.runs_for = 1h}};
  signal_at(1s, SIGTERM);
  const Summary summary = run(jobs({"long"}));
  EXPECT_EQ(ends(), (Ends{"long cancelled..."}));
  EXPECT_EQ(summary.elapsed, 31s);
  EXPECT_EQ(exit_code(summary), 143);
  EXPECT_NE(notices_.find("the grace is over"), std::string::npos);
}

TEST_F(StoppedRun, TheSecondSignalEndsAndTheThirdKills) {
  does_["stubborn"] = {{.runs_for = 1h, .ignores_term = true}};
  signal_at(1s, SIGINT);
  signal_at(2s, SIGINT);
  signal_at(3s, SIGTERM);
  const Summary summary = run(jobs({"stubborn", "never"}));
  ASSERT_EQ(signals_.size(), 3u);
  EXPECT_EQ(signals_[0].signal, SIGTERM);
  EXPECT_EQ(signals_[1].signal, SIGCONT);
  EXPECT_EQ(signals_[2].signal, SIGKILL);
  EXPECT_EQ(summary.elapsed, 3s);
  EXPECT_EQ(summary.ending, Ending::kInterrupted) << "the first one decides";
  EXPECT_EQ(started_, 1);
}

TEST_F(StoppedRun, AJobThatEndsWellAfterTheSecondSignalIsDone) {
  does_["tidy"] = {{.runs_for = 1h, .status_on_term = 0}};
  signal_at(1s, SIGINT);
  signal_at(2s, SIGINT);
  run(jobs({"tidy"}));
  EXPECT_EQ(ends(), (Ends{"tidy ok"}));
}

TEST_F(StoppedRun, HangUpDrainsAndDoesNoMore) {
  does_["long"] = {{.runs_for = 20s}};
  signal_at(1s, SIGHUP);
  signal_at(2s, SIGHUP);
  const Summary summary = run(jobs({"long", "never"}));
  EXPECT_EQ(ends(), (Ends{"long ok"}));
  EXPECT_EQ(exit_code(summary), 143);
}

TEST_F(StoppedRun, AJobThatWaitsForItsNextTryIsLeftForAResume) {
  options_.backoff = {.first = 1h, .most = 1h};
  does_["x"] = {{.status = 1}, {}};
  signal_at(1s, SIGINT);
  const Summary summary = run(jobs({"x"}));
  EXPECT_EQ(ends(), (Ends{"x retry..."}));
  EXPECT_EQ(summary.not_run, 1u);
  EXPECT_EQ(summary.failed, 0u);
  EXPECT_EQ(summary.elapsed, 1s) << "it does not wait for the next try";
  does_.clear();
  EXPECT_EQ(run(jobs({"x"})).ok, 1u);
}

TEST_F(StoppedRun, AFailureWhileDrainingIsNotTriedAgain) {
  does_["x"] = {{.runs_for = 5s, .status = 1}};
  signal_at(1s, SIGINT);
  const Summary summary = run(jobs({"x"}));
  EXPECT_EQ(ends(), (Ends{"x retry..."}));
  EXPECT_EQ(summary.not_run, 1u);
}

TEST_F(StoppedRun, ASignalAfterAHaltEndsWhatStillRuns) {
  options_.jobs = 2;
  options_.halt = {.when = jobs::Halt::When::kSoon, .fail = 1};
  does_["long"] = {{.runs_for = 1h}};
  does_["bad"] = {{.status = 65}};
  signal_at(1s, SIGINT);
  const Summary summary = run(jobs({"long", "bad"}));
  EXPECT_EQ(summary.elapsed, 1s);
  EXPECT_EQ(summary.ending, Ending::kHalted);
}

TEST_F(StoppedRun, AMistakeOnStandardInputEndsTheRunWithWhatRuns) {
  does_["a"] = {{.runs_for = 5s}};
  int ends_of_pipe[2];
  ASSERT_EQ(pipe2(ends_of_pipe, O_CLOEXEC), 0);
  const FileDescriptor reader(ends_of_pipe[0]);
  FileDescriptor writer(ends_of_pipe[1]);
  const std::string text = jobs({"a"}) + "{\"cmnd\":[\"b\"]}\n";
  ASSERT_EQ(write(writer.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  writer.close();
  options_.jobs_file = "-";
  const Summary summary = run(Input{.descriptor = reader.get(), .total = {}}, nullptr);
  EXPECT_EQ(summary.ending, Ending::kInputFailed);
  ASSERT_TRUE(summary.failure);
  EXPECT_EQ(summary.failure->message, "stdin:2: unknown field \"cmnd\"\n  try: \"cmd\"");
  EXPECT_EQ(exit_code(summary), 2);
  EXPECT_EQ(summary.ok + summary.not_run, 1u);
}

}  // namespace
}  // namespace keyway::batch
