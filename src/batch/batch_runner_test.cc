#include "batch/batch_runner.h"

#include "batch/runner_fixture.h"
#include "jobs/halt.h"
#include "support/batch_exit_code.h"

namespace keyway::batch {
namespace {

using Ends = std::vector<std::string>;
constexpr auto ok = AttemptOutcome::kOk;

TEST_F(RunnerTest, RunsEveryJobOnceAndCountsThem) {
  const Summary summary = run(jobs({"a/x", "b/y", "a/z"}));
  EXPECT_EQ(summary.ending, Ending::kFinished);
  EXPECT_EQ(summary.jobs, 3u);
  EXPECT_EQ(summary.ok, 3u);
  EXPECT_EQ(summary.groups, 2u);
  EXPECT_EQ(summary.failed + summary.not_run + summary.resumed_past, 0u);
  Ends sorted = ends();  // groups take turns: their order is not that of the file
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(sorted, (Ends{"x ok", "y ok", "z ok"}));
  EXPECT_EQ(exit_code(summary), 0);
}

TEST_F(RunnerTest, AnEmptyFileIsDoneAtOnce) {
  const Summary summary = run("");
  EXPECT_EQ(summary.ending, Ending::kFinished);
  EXPECT_EQ(summary.jobs, 0u);
}

TEST_F(RunnerTest, NeverMoreRunThanJobsAndLimitsAllow) {
  options_.jobs = 3;
  options_.limits.standard.limit = 2;
  options_.limits.groups["serial"] = {.limit = 1, .max_in_flight = {}, .queue = {}};
  std::vector<std::string> words;
  for (int i = 0; i < 20; ++i) words.push_back("serial/s" + std::to_string(i));
  for (int i = 0; i < 20; ++i) words.push_back("pair/p" + std::to_string(i));
  run(jobs(words));
  EXPECT_EQ(most_running_, 3);
  std::map<std::string, std::vector<std::pair<LoggedAttempt::Time, int>>> changes;
  for (const LoggedAttempt& attempt : attempts_) {
    changes[attempt.group].push_back({attempt.start, +1});
    changes[attempt.group].push_back({attempt.end, -1});
  }
  for (auto& [group, list] : changes) {
    std::sort(list.begin(), list.end());
    int running = 0;
    int most = 0;
    for (const auto& [time, change] : list) most = std::max(most, running += change);
    EXPECT_EQ(most, group == "serial" ? 1 : 2) << group;
  }
}

TEST_F(RunnerTest, JobsOfAGroupStartInTheOrderOfTheFile) {
  options_.limits.standard.limit = 1;
  run(jobs({"g/a", "g/b", "g/c", "g/d"}));
  EXPECT_EQ(ends(), (Ends{"a ok", "b ok", "c ok", "d ok"}));
}

TEST_F(RunnerTest, AWeightIsHowManyPlacesOfItsGroupAJobTakes) {
  options_.limits.standard.limit = 3;
  for (const char* name : {"heavy1", "heavy2", "light"}) does_[name] = {{.runs_for = 10s}};
  const Summary summary = run(R"({"id":"heavy1","cmd":["heavy1"],"weight":2}
                                 {"id":"light","cmd":["light"]}
                                 {"id":"heavy2","cmd":["heavy2"],"weight":2})");
  EXPECT_EQ(attempt("light").start, attempt("heavy1").start);
  EXPECT_EQ(attempt("heavy2").start, attempt("heavy1").end);
  EXPECT_EQ(summary.bound_by, "default");
  EXPECT_EQ(summary.bound_time, 10s);
}

TEST_F(RunnerTest, AJobThatIsTriedAgainComesBeforeThoseThatWait) {
  options_.limits.standard.limit = 1;
  options_.backoff = {.first = 0ms, .most = 0ms};
  does_["x"] = {{.status = 1}, {}};
  run(jobs({"x", "a", "b", "c"}));
  // It gave its place to the next one meanwhile.
  EXPECT_EQ(ends(), (Ends{"x retry...", "a ok", "x ok", "b ok", "c ok"}));
}

TEST_F(RunnerTest, AJobKnowsWhoItIs) {
  options_.timeout = 5s;
  options_.retries = 2;
  run(R"({"id":"a1","group":"db","cmd":["x","$1"],"env":{"FRUIT":"pear"},"cwd":"/data"})");
  ASSERT_EQ(commands_.size(), 1u);
  const Command& command = commands_[0];
  EXPECT_EQ(command.argv, (std::vector<std::string>{"x", "$1"}));
  EXPECT_EQ(command.directory, "/data");
  for (const auto& [name, value] : std::map<std::string, std::string>{{"KEYWAY_KEY", "db"},
                                                                      {"KEYWAY_GROUP", "db"},
                                                                      {"KEYWAY_ID", "a1"},
                                                                      {"KEYWAY_SEQ", "1"},
                                                                      {"KEYWAY_ATTEMPT", "1"},
                                                                      {"KEYWAY_MAX_ATTEMPTS", "3"},
                                                                      {"KEYWAY_SLOT", "1"},
                                                                      {"KEYWAY_RUN_ID", "run"},
                                                                      {"FRUIT", "pear"}}) {
    EXPECT_EQ(variable_of(command, name), value) << name;
  }
  using std::chrono::milliseconds;
  const auto deadline =
      std::chrono::floor<milliseconds>(attempts_[0].start).time_since_epoch() + 5s;
  EXPECT_EQ(variable_of(command, "KEYWAY_DEADLINE"),
            std::to_string(std::chrono::duration_cast<milliseconds>(deadline).count()));
}

TEST_F(RunnerTest, SlotsAreThoseOfTheJobsThatRunNow) {
  options_.jobs = 2;
  does_["long"] = {{.runs_for = 1s}};
  run(jobs({"long", "a", "b", "c"}));
  EXPECT_EQ(attempt("long").slot, 1);
  for (const char* id : {"a", "b", "c"}) EXPECT_EQ(attempt(id).slot, 2);
}

TEST_F(RunnerTest, AFailureIsTriedAgainAndMayTurnOutWell) {
  does_["x"] = {{.status = 1}, {.signal = 9}, {.status = 0}};
  const Summary summary = run(jobs({"x"}));
  EXPECT_EQ(ends(), (Ends{"x retry...", "x retry...", "x ok"}));
  EXPECT_EQ(summary.ok, 1u);
  EXPECT_EQ(summary.ok_after_retry, 1u);
  EXPECT_EQ(attempt("x", 2).signal, 9);
  EXPECT_EQ(variable_of(commands_[2], "KEYWAY_ATTEMPT"), "3");
}

TEST_F(RunnerTest, AfterItsRetriesAJobHasFailed) {
  options_.retries = 1;
  does_["x"] = {{.status = 3}};
  does_["own"] = {{.status = 3}};
  const Summary summary = run(jobs({"x"}) + R"({"id":"own","cmd":["own"],"retries":0})");
  EXPECT_EQ(ends(), (Ends{"x retry...", "own failed", "x failed"}));
  EXPECT_EQ(summary.failed, 2u);
  EXPECT_EQ(attempt("x", 2).exit, 3);
  EXPECT_EQ(exit_code(summary), 1);
}

TEST_F(RunnerTest, Status65IsAPermanentFailure) {
  does_["x"] = {{.status = 65}};
  run(jobs({"x"}));
  EXPECT_EQ(ends(), (Ends{"x failed"}));
}

TEST_F(RunnerTest, TheWaitForTheNextTryGrowsAndHasABound) {
  options_.retries = 40;
  options_.backoff = {.first = 100ms, .most = 800ms};
  does_["x"] = {{.runs_for = 0ms, .status = 1}};
  run(jobs({"x"}));
  ASSERT_EQ(attempts_.size(), 41u);
  Duration longest{0};
  for (int n = 1; n <= 40; ++n) {
    const Duration waited = attempt("x", n + 1).queued - attempt("x", n).end;
    longest = std::max(longest, waited);
    EXPECT_GE(waited, 0ms);
    EXPECT_LE(waited, std::min<Duration>(800ms, 100ms * (1LL << std::min(n - 1, 30)))) << n;
  }
  EXPECT_GT(longest, 400ms) << "the jitter takes all of the time there is";
}

TEST_F(RunnerTest, AJobThatWaitsForItsNextTryHoldsNothing) {
  options_.jobs = 1;
  options_.limits.standard.limit = 1;
  options_.backoff = {.first = 10s, .most = 10s};
  does_["x"] = {{.status = 1}, {}};
  run(jobs({"x", "a", "b"}));
  EXPECT_EQ(ends(), (Ends{"x retry...", "a ok", "b ok", "x ok"}));
  EXPECT_LT(attempt("b").end, attempt("x", 2).start);
}

TEST_F(RunnerTest, ATryThatTakesTooLongIsEndedAndTriedAgain) {
  options_.timeout = 2s;
  options_.retries = 1;
  options_.grace = 3s;
  does_["slow"] = {{.runs_for = 1h}, {.runs_for = 1h, .ignores_term = true}};
  const Summary summary = run(jobs({"slow"}));
  EXPECT_EQ(ends(), (Ends{"slow retry...", "slow timeout"}));
  EXPECT_EQ(attempt("slow", 1).end - attempt("slow", 1).start, 2s);
  EXPECT_EQ(attempt("slow", 1).signal, SIGTERM);
  EXPECT_EQ(attempt("slow", 2).end - attempt("slow", 2).start, 5s) << "SIGKILL after the grace";
  EXPECT_EQ(attempt("slow", 2).signal, SIGKILL);
  EXPECT_EQ(summary.timed_out, 1u);
  EXPECT_EQ(summary.failed, 1u);
}

TEST_F(RunnerTest, ATimeoutIsOneEvenIfTheJobThenExitsWell) {
  options_.timeout = 2s;
  options_.retries = 0;
  does_["slow"] = {{.runs_for = 1h, .status_on_term = 0}};
  run(jobs({"slow"}));
  EXPECT_EQ(ends(), (Ends{"slow timeout"}));
}

TEST_F(RunnerTest, AJobsOwnTimeoutComesFirstAndZeroIsNone) {
  options_.timeout = 2s;
  options_.retries = 0;
  does_["x"] = {{.runs_for = 10s}};
  run(R"({"id":"own","cmd":["x"],"timeout":3}
         {"id":"none","cmd":["x"],"timeout":0})");
  EXPECT_EQ(attempt("own").end - attempt("own").start, 3s);
  EXPECT_EQ(attempt("none").outcome, ok);
}

TEST_F(RunnerTest, ACommandThatCannotStartFailsAndSaysWhy) {
  options_.retries = 0;
  does_["nope"] = {{.status = 127, .failure = "cannot run \"nope\": not found in PATH"}};
  run(jobs({"nope"}));
  EXPECT_EQ(attempt("nope").exit, 127);
  EXPECT_EQ(err(), "keyway: job \"nope\": cannot run \"nope\": not found in PATH\n");
}

TEST_F(RunnerTest, AJobBeyondTheQueueOfItsGroupFails) {
  options_.limits.groups["tiny"] = {.limit = 1, .max_in_flight = {}, .queue = 1};
  const Summary summary = run(jobs({"tiny/a", "tiny/b", "tiny/c"}));
  EXPECT_EQ(summary.ok, 2u);
  EXPECT_EQ(summary.failed, 1u);
  EXPECT_EQ(attempt("c").outcome, AttemptOutcome::kFailed);
  EXPECT_EQ(attempt("c").slot, 0);
  EXPECT_EQ(err(), "keyway: job \"c\": the queue of its group is full\n");
}

// ---- output

TEST_F(RunnerTest, OutputComesJobByJobAsTheyEnd) {
  does_["slow"] = {{.runs_for = 5s, .out = "slow\n", .err = "slow err\n"}};
  does_["fast"] = {{.out = "fast\n"}};
  run(jobs({"slow", "fast"}));
  EXPECT_EQ(out(), "fast\nslow\n");
  EXPECT_EQ(err(), "slow err\n");
}

TEST_F(RunnerTest, OutputKeepsTheOrderOfTheFileIfAsked) {
  options_.output = OutputMode::kKeepOrder;
  does_["slow"] = {{.runs_for = 5s, .out = "slow\n"}};
  does_["fast"] = {{.out = "fast\n"}};
  does_["bad"] = {{.status = 65, .out = "bad\n"}};
  run(jobs({"slow", "fast", "bad", "silent", "fast2"}));
  EXPECT_EQ(out(), "slow\nfast\nbad\n");
}

TEST_F(RunnerTest, OutputOfATryThatIsRepeatedIsNoResult) {
  for (const OutputMode mode : {OutputMode::kGroup, OutputMode::kKeepOrder}) {
    options_.output = mode;
    options_.fresh = true;
    does_["x"] = {{.status = 1, .out = "half\n", .err = "why\n"}, {.out = "whole\n"}};
    run(jobs({"x"}));
    EXPECT_EQ(out(), "whole\n");
    EXPECT_EQ(err(), "why\n");
  }
}

TEST_F(RunnerTest, LinesComeWhole) {
  options_.output = OutputMode::kLine;
  does_["x"] = {{.out = "one\ntwo\nno end", .err = "err"}};
  run(jobs({"x"}));
  EXPECT_EQ(out(), "one\ntwo\nno end\n");
  EXPECT_EQ(err(), "err\n");
}

TEST_F(RunnerTest, TheEndOfWhatAFailureWroteIsKept) {
  for (const OutputMode mode : {OutputMode::kGroup, OutputMode::kLine}) {
    options_.output = mode;
    options_.fresh = true;
    does_["x"] = {{.status = 65, .err = std::string(5000, 'a') + "\nthe reason"}};
    does_["fine"] = {{.err = "a warning"}};
    run(jobs({"x", "fine"}));
    EXPECT_EQ(attempt("x").error_output, std::string(1989, 'a') + "\nthe reason");
    EXPECT_EQ(attempt("fine").error_output, "");
  }
}

TEST_F(RunnerTest, WithoutOutputNothingIsCaptured) {
  options_.output = OutputMode::kNone;
  does_["x"] = {{.out = "text"}};
  run(jobs({"x"}));
  EXPECT_EQ(out(), "");
  EXPECT_FALSE(commands_[0].captures_output);
}

// ---- resume

TEST_F(RunnerTest, AResumeRepeatsOnlyWhatIsNotOk) {
  does_["bad"] = {{.status = 65}};
  run(jobs({"a", "bad", "b"}));
  does_.clear();
  const Summary summary = run(jobs({"a", "bad", "b", "new"}));
  EXPECT_EQ(ends(), (Ends{"bad ok", "new ok"}));
  EXPECT_EQ(summary.resumed_past, 2u);
  EXPECT_EQ(summary.jobs, 2u);
  EXPECT_EQ(attempt("new").seq, 4u);
  EXPECT_EQ(run(jobs({"a", "bad", "b", "new"})).resumed_past, 4u);
  EXPECT_EQ(started_, 0);
}

TEST_F(RunnerTest, AResumedRunKeepsTheOrderOfTheRest) {
  options_.output = OutputMode::kKeepOrder;
  does_["b"] = {{.status = 65}};
  run(jobs({"a", "b", "c", "d"}));
  does_["b"] = {{.runs_for = 1s, .out = "b\n"}};
  does_["e"] = {{.out = "e\n"}};
  run(jobs({"a", "b", "c", "d", "e"}));
  EXPECT_EQ(out(), "b\ne\n");
}

TEST_F(RunnerTest, AFullDiskStopsTheRunAndLaterItResumes) {
  options_.jobs = 1;
  // The folder of a run whose joblog has no room.
  ASSERT_TRUE(RunState::open(folder_.file("state"), false).ok());
  unlink(folder_.file("state/joblog.jsonl").c_str());
  ASSERT_EQ(symlink("/dev/full", folder_.file("state/joblog.jsonl").c_str()), 0);
  const Summary summary = run(jobs({"a", "b", "c"}));
  EXPECT_EQ(summary.ending, Ending::kStoreFailed);
  EXPECT_EQ(exit_code(summary), 3);
  EXPECT_EQ(started_, 1);
  EXPECT_EQ(summary.not_run, 2u);
  ASSERT_TRUE(summary.failure);
  EXPECT_NE(summary.failure->message.find("joblog.jsonl: No space left on device; no other job"),
            std::string::npos);
  unlink(folder_.file("state/joblog.jsonl").c_str());
  EXPECT_EQ(run(jobs({"a", "b", "c"})).ok, 3u);
}

// ---- halt

TEST_F(RunnerTest, HaltSoonLetsFinishWhatRuns) {
  options_.jobs = 2;
  options_.halt = {.when = jobs::Halt::When::kSoon, .fail = 1};
  does_["long"] = {{.runs_for = 10s}};
  does_["bad"] = {{.runs_for = 1s, .status = 65}};
  const Summary summary = run(jobs({"long", "bad", "never"}));
  EXPECT_EQ(ends(), (Ends{"bad failed", "long ok"}));
  EXPECT_EQ(summary.ending, Ending::kHalted);
  EXPECT_EQ(summary.not_run, 1u);
  EXPECT_EQ(exit_code(summary), 4);
}

TEST_F(RunnerTest, HaltNowEndsWhatRuns) {
  options_.jobs = 2;
  options_.halt = {.when = jobs::Halt::When::kNow, .fail = 1};
  does_["long"] = {{.runs_for = 1h, .out = "half a result"}};
  does_["bad"] = {{.runs_for = 1s, .status = 65}};
  const Summary summary = run(jobs({"long", "bad", "never"}));
  EXPECT_EQ(ends(), (Ends{"bad failed", "long cancelled..."}));
  EXPECT_EQ(summary.not_run, 2u);
  EXPECT_EQ(summary.elapsed, 1s);
  EXPECT_EQ(out(), "");
  options_.halt.when = jobs::Halt::When::kNever;
  does_.clear();
  EXPECT_EQ(run(jobs({"long", "bad", "never"})).ok, 3u) << "all are left for a resume";
}

TEST_F(RunnerTest, OnlyJobsThatFailedForGoodCountForTheHalt) {
  options_.halt = {.when = jobs::Halt::When::kSoon, .fail = 1};
  does_["x"] = {{.status = 1}, {}};
  EXPECT_EQ(run(jobs({"x", "y"})).ending, Ending::kFinished);
}

// ---- what is told

TEST_F(RunnerTest, ProgressCountsAsItGoes) {
  options_.jobs = 2;
  options_.limits.standard.limit = 1;
  does_["bad"] = {{.status = 65}};
  does_["long"] = {{.runs_for = 10s}};
  Progress seen;
  at(5s, [&](BatchRunner& runner) { seen = runner.progress(); });
  run(jobs({"g/ok1", "g/bad", "g/long", "g/later", "h/ok2"}));
  EXPECT_EQ(seen.name, "jobs.jsonl");
  EXPECT_EQ(seen.total, 5u);
  EXPECT_EQ(seen.ended, 3u);
  EXPECT_EQ(seen.ok, 2u);
  EXPECT_EQ(seen.failed, 1u);
  EXPECT_EQ(seen.running, 1);
  EXPECT_EQ(seen.jobs, 2);
  EXPECT_EQ(seen.groups, 2u);
  EXPECT_EQ(seen.groups_waiting, 1u);
  EXPECT_EQ(seen.elapsed, 5s);
}

TEST_F(RunnerTest, TheGroupThatBoundTheRunIsNamed) {
  options_.limits.standard.limit = 1;
  for (const char* name : {"d1", "d2", "d3", "w1"}) does_[name] = {{.runs_for = 10s}};
  const Summary summary = run(jobs({"db/d1", "db/d2", "db/d3", "web/w1"}));
  EXPECT_EQ(summary.bound_by, "db");
  EXPECT_EQ(summary.bound_jobs, 3u);
  EXPECT_EQ(summary.bound_time, 20s);
  EXPECT_EQ(summary.elapsed, 30s);
  EXPECT_EQ(summary.waiting.max, 20s);
  EXPECT_NEAR(static_cast<double>(summary.running.p50.count()), 1e7, 4e5);
}

TEST_F(RunnerTest, NobodyBoundARunThatOnlyLackedPlaces) {
  options_.jobs = 1;
  EXPECT_EQ(run(jobs({"a", "b", "c"})).bound_by, "");
}

TEST_F(RunnerTest, RunningJobsCanBeNamed) {
  does_["long"] = {{.runs_for = 10s}};
  std::string text;
  at(2500ms, [&](BatchRunner& runner) { text = runner.describe_running(); });
  run(jobs({"db/long", "x"}));
  EXPECT_EQ(text, "1 running\n  long  group db  pid 1001  try 1  since 2.5 s");
}

// ---- an input that changes

TEST_F(RunnerTest, WhatIsAddedMeanwhileIsLeftForTheNextRun) {
  const FileDescriptor file(
      open(folder_.write("jobs.jsonl", jobs({"a", "b", "c"})).c_str(), O_RDONLY));
  const Summary summary = run(Input{.descriptor = file.get(), .total = 2}, nullptr);
  EXPECT_EQ(summary.ok, 2u);
  EXPECT_EQ(summary.not_run, 0u);
  EXPECT_EQ(started_, 2);
}

TEST_F(RunnerTest, AFileThatBecameShorterIsSaid) {
  const FileDescriptor file(open(folder_.write("jobs.jsonl", jobs({"a"})).c_str(), O_RDONLY));
  const Summary summary = run(Input{.descriptor = file.get(), .total = 2}, nullptr);
  EXPECT_EQ(summary.ending, Ending::kInputFailed);
  EXPECT_EQ(exit_code(summary), 5);
  EXPECT_EQ(summary.ok + summary.not_run, 2u);
}

// ---- many

TEST_F(RunnerTest, JobsPastTheWindowComeInTheirTurn) {
  options_.jobs = 64;
  options_.limits.standard.limit = 64;
  const int count = static_cast<int>(kWindowJobs) + 20'000;
  const Summary summary = run(numbered_jobs(count), /*with_state=*/false);
  EXPECT_EQ(summary.ok, static_cast<std::uint64_t>(count));
}

TEST_F(RunnerTest, KeptOrderStaysInTheWindowBehindASlowJob) {
  options_.jobs = 64;
  options_.limits.standard.limit = 64;
  options_.output = OutputMode::kKeepOrder;
  does_["job1"] = {{.runs_for = 1h, .out = "first\n"}};
  const int count = static_cast<int>(kWindowJobs) + 5'000;
  const auto last = "job" + std::to_string(count);
  does_[last] = {{.out = "last\n"}};
  std::uint64_t ended = 0;
  at(30min, [&](BatchRunner& runner) { ended = runner.progress().ended; });
  const Summary summary = run(numbered_jobs(count), /*with_state=*/false);
  EXPECT_EQ(ended, kWindowJobs - 1) << "what cannot be printed is not run ahead without end";
  EXPECT_EQ(summary.ok, static_cast<std::uint64_t>(count));
  EXPECT_EQ(out(), "first\nlast\n");
}

TEST_F(RunnerTest, EndingARunnerEndsItsJobs) {
  const FileDescriptor file(
      open(folder_.write("jobs.jsonl", numbered_jobs(1000)).c_str(), O_RDONLY));
  testing::SimScheduler sim;
  FakeProcesses processes(
      sim, [](const Command&) { return FakeProcess{.runs_for = 1h, .ignores_term = true}; });
  {
    BatchRunner runner(options_, {.descriptor = file.get(), .total = 1000}, nullptr, sim, processes,
                       {});
    struct Thrown {};
    struct Bomb final : Timer {
      void fire() override { throw Thrown(); }
    } bomb;
    sim.add_timer(bomb, sim.now() + 1s);
    EXPECT_THROW(runner.run(), Thrown);
    EXPECT_EQ(processes.running(), 4);
  }
  EXPECT_EQ(processes.running(), 0);
  EXPECT_EQ(processes.started(), 4);
}

}  // namespace
}  // namespace keyway::batch
