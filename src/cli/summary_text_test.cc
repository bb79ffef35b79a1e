#include "cli/summary_text.h"

#include <csignal>

#include <gtest/gtest.h>

namespace keyway::cli {
namespace {

using namespace std::chrono_literals;

jobs::Summary some_failed() {
  return {.jobs = 10'000,
          .groups = 1'204,
          .ok = 9'996,
          .ok_after_retry = 12,
          .failed = 4,
          .timed_out = 1,
          .elapsed = 23'900ms,
          .running = {.p50 = 71ms, .p95 = 140ms, .p99 = 310ms, .max = 2'100ms},
          .waiting = {.p50 = 12ms, .p95 = 1s, .p99 = 4s, .max = 5s},
          .bound_by = "u_991",
          .bound_jobs = 1'377,
          .bound_time = 23'100ms,
          .joblog_file = "jobs.jsonl.keyway/joblog.jsonl",
          .report_file = "report.html"};
}

const std::vector<FailedJob> kFailed = {{.id = "a-7", .exit = 3},
                                        {.id = "b-9", .signal = SIGKILL},
                                        {.id = "c\x1b[1m", .timed_out = true}};

TEST(SummaryText, SaysHowLongHowWellAndWhatHeldItUp) {
  EXPECT_EQ(summary_text(some_failed(), kFailed, Style{}),
            "done in 23.9 s: 10,000 jobs, 1,204 groups, 418/s\n"
            "  ok 9,996 (12 after retry)  failed 4 (1 timed out)  resumed-past 0\n"
            "  running  p50 71 ms  p95 140 ms  p99 310 ms  max 2.1 s\n"
            "  waiting  p50 12 ms  p99 4.0 s\n"
            "  bound by group u_991: 1,377 jobs, 23.1 s of 23.9 s at its limit\n"
            "  failed: a-7 (exit 3), b-9 (SIGKILL), c\\x1b[1m (timed out) and 1 more\n"
            "  joblog: jobs.jsonl.keyway/joblog.jsonl\n"
            "  report: report.html\n");
}

TEST(SummaryText, OfAStreamNamesKeysAndDeadLetters) {
  jobs::Summary summary = some_failed();
  summary.timed_out = 0;
  summary.report_file.clear();
  summary.joblog_file = "orders.jsonl.keyway/joblog.jsonl";
  summary.dead_file = "orders.jsonl.keyway/dead.jsonl";
  EXPECT_EQ(summary_text(summary, kFailed, Style{}, kStreamWords),
            "done in 23.9 s: 10,000 records, 1,204 keys, 418/s\n"
            "  ok 9,996 (12 after retry)  dead 4  resumed-past 0\n"
            "  handler  p50 71 ms  p95 140 ms  p99 310 ms  max 2.1 s\n"
            "  waiting  p50 12 ms  p99 4.0 s\n"
            "  bound by key u_991: 1,377 records in a row, 23.1 s of 23.9 s\n"
            "  dead letters: orders.jsonl.keyway/dead.jsonl  (keyway dead replay "
            "orders.jsonl.keyway)\n");
}

TEST(SummaryText, OfAStreamWithoutKeysSaysWhatWasPassedOver) {
  EXPECT_EQ(summary_text({.jobs = 1,
                          .ok = 1,
                          .not_run = 5,
                          .left_out = 2,
                          .duplicates = 3,
                          .resumed_past = 4,
                          .elapsed = 2s},
                         {}, Style{}, kStreamWords),
            "done in 2.0 s: 1 record, 0.5/s\n"
            "  ok 1  dead 0  skipped 2  handled before 3  not run 5  resumed-past 4\n"
            "  handler  p50 0 us  p95 0 us  p99 0 us  max 0 us\n"
            "  waiting  p50 0 us  p99 0 us\n");
}

TEST(SummaryText, OneIsSingularAndWhatIsNotThereIsNotNamed) {
  EXPECT_EQ(summary_text({.jobs = 1, .groups = 1, .ok = 1, .elapsed = 2s}, {}, Style{}),
            "done in 2.0 s: 1 job, 1 group, 0.5/s\n"
            "  ok 1  failed 0  resumed-past 0\n"
            "  running  p50 0 us  p95 0 us  p99 0 us  max 0 us\n"
            "  waiting  p50 0 us  p99 0 us\n");
}

TEST(SummaryText, ARunThatFoundAllDoneHasNoTimes) {
  EXPECT_EQ(summary_text({.resumed_past = 1'000, .elapsed = 3ms}, {}, Style{}),
            "done in 3.0 ms: 0 jobs, 0 groups\n"
            "  ok 0  failed 0  resumed-past 1,000\n");
}

TEST(SummaryText, ARunThatWasStoppedSaysHowToGoOn) {
  const auto text = summary_text(
      {.ending = jobs::Ending::kInterrupted, .not_run = 7, .elapsed = 1s, .joblog_file = "x"}, {},
      Style{});
  EXPECT_TRUE(text.starts_with("interrupted after 1.0 s: "));
  EXPECT_NE(text.find("  not run 7  "), std::string::npos);
  EXPECT_TRUE(text.ends_with("  the same command again runs what is left\n"));
  EXPECT_TRUE(summary_text({.ending = jobs::Ending::kHalted}, {}, Style{}).starts_with("halted"));
}

TEST(SummaryText, ARunThatKeptNothingCannotGoOn) {
  const auto text = summary_text({.ending = jobs::Ending::kInterrupted, .not_run = 7}, {}, Style{});
  EXPECT_TRUE(text.starts_with("interrupted after less than 1 ms: ")) << text;
  EXPECT_EQ(text.find("again"), std::string::npos);
}

TEST(SummaryText, AtMostFiveFailuresAreNamed) {
  jobs::Summary summary{.jobs = 100, .failed = 100};
  const std::vector<FailedJob> failed(10, FailedJob{.id = "x", .exit = 1});
  EXPECT_NE(summary_text(summary, failed, Style{}).find("x (exit 1) and 95 more\n"),
            std::string::npos);
}

TEST(SummaryJson, IsOneObjectWithAllNumbers) {
  EXPECT_EQ(summary_json(some_failed(), std::span(kFailed).first(1)),
            R"({"ending":"finished","exit_code":1,"jobs":10000,"groups":1204,"ok":9996,)"
            R"("ok_after_retry":12,"failed":4,"timed_out":1,"not_run":0,"resumed_past":0,)"
            R"("elapsed_ms":23900,"per_second":418.410,)"
            R"("running_ms":{"p50":71.000,"p95":140.000,"p99":310.000,"max":2100.000},)"
            R"("waiting_ms":{"p50":12.000,"p95":1000.000,"p99":4000.000,"max":5000.000},)"
            R"("bound_by":{"group":"u_991","jobs":1377,"time_ms":23100},)"
            R"("first_failed":[{"id":"a-7","why":"exit 3"}],)"
            R"("joblog":"jobs.jsonl.keyway/joblog.jsonl","report":"report.html"})");
}

TEST(SummaryJson, WhatIsNotThereIsNull) {
  const std::string json = summary_json({.ending = jobs::Ending::kHalted}, {});
  EXPECT_NE(json.find(R"("ending":"halted","exit_code":4)"), std::string::npos);
  EXPECT_NE(json.find(R"("bound_by":null,"first_failed":[])"), std::string::npos);
  EXPECT_NE(json.find(R"("report":null)"), std::string::npos);
}

}  // namespace
}  // namespace keyway::cli
