#include <csignal>
#include <fstream>

#include <gtest/gtest.h>

#include "base/human_text.h"
#include "handlers/call_fixture.h"
#include "handlers/handlers.h"
#include "keyway/testing/sim_scheduler.h"
#include "process/event_loop.h"
#include "process/fake_processes.h"
#include "process/system_processes.h"

namespace keyway::run {
namespace {

using namespace std::chrono_literals;

class SpawnHandler : public ::testing::Test {
 protected:
  void make(SpawnOptions options) {
    Result<std::unique_ptr<Handler>> made =
        make_spawn_handler(std::move(options), loop_, processes_);
    ASSERT_TRUE(made.ok()) << made.error().message;
    handler_ = std::move(*made);
    handler_->on_failure = [this](const Error& error) { failures_.push_back(error); };
  }
  void make_shell(const std::string& text) { make({.argv = {"/bin/sh", "-c", text}}); }
  Handled handle(const std::string& value) {
    const TestRecord record(value);
    return sync_wait(loop_, handler_->handle(record.call()));
  }

  EventLoop loop_;
  SystemProcesses processes_{loop_, 8};
  std::unique_ptr<Handler> handler_;
  std::vector<Error> failures_;
};

TEST_F(SpawnHandler, TheRecordAndANewlineAreItsStdin) {
  make({.argv = {"/bin/cat"}});
  const Handled handled = handle("a record");
  EXPECT_EQ(handled.outcome.kind, Outcome::kDone);
  EXPECT_EQ(text_of(handled.output), "a record\n");
  EXPECT_EQ(text_of(handled.errors), "");
}

TEST_F(SpawnHandler, AHundredMegabytesReachIt) {
  make({.argv = {"/usr/bin/wc", "-c"}});
  EXPECT_EQ(text_of(handle(std::string(100'000'000, 'x')).output), "100000001\n");
}

TEST_F(SpawnHandler, ItNeedNotReadItsStdin) {
  make({.argv = {"/bin/true"}});
  EXPECT_EQ(handle(std::string(1'000'000, 'x')).outcome.kind, Outcome::kDone);
}

TEST_F(SpawnHandler, ArgumentsAndEnvironmentTellOfTheRecord) {
  make({.argv = {"/bin/sh", "-c",
                 "echo \"$0|$1|$KEYWAY_KEY|$KEYWAY_GROUP|$KEYWAY_ID|$KEYWAY_SEQ|$KEYWAY_ATTEMPT|"
                 "$KEYWAY_MAX_ATTEMPTS|$KEYWAY_SLOT|$KEYWAY_RUN_ID|$KEYWAY_SOURCE|"
                 "$KEYWAY_PARTITION|$KEYWAY_OFFSET|${{KEYWAY_DEADLINE-none}\"",
                 "{.a}", "{}"},
        .run_id = "r1"});
  EXPECT_EQ(text_of(handle(R"({"a":"$(x) y"})").output),
            "$(x) y|{\"a\":\"$(x) y\"}|u7|vip|f:7|7|1|4|3|r1|orders.jsonl|2|400|none\n");
}

TEST_F(SpawnHandler, WithATimeoutTheDeadlineIsKnown) {
  make({.argv = {"/bin/sh", "-c", "echo $KEYWAY_DEADLINE"}, .timeout = 1h});
  const auto now = [] {
    return std::chrono::floor<std::chrono::milliseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  };
  const auto before = now();
  const long long deadline = std::stoll(text_of(handle("x").output));
  EXPECT_GE(deadline, before + 3'600'000);
  EXPECT_LE(deadline, now() + 3'600'000);
}

TEST_F(SpawnHandler, AShellSeesValuesAsWords) {
  make({.argv = {"printf", "'<%s>'", "{}", "{key}", "|", "tr", "a", "b"}, .shell = true});
  EXPECT_EQ(text_of(handle("a 'quoted' $(echo x) \"a\" \\a").output),
            "<b 'quoted' $(echo x) \"b\" \\b><u7>");
}

TEST_F(SpawnHandler, TheExitSaysWhatBecameOfTheRecord) {
  make({.argv = {"/bin/sh", "-c", "read how; echo out; echo err >&2; eval \"$how\""}});
  Handled handled = handle("exit 0");
  EXPECT_EQ(handled.outcome.kind, Outcome::kDone);
  EXPECT_EQ(text_of(handled.output), "out\n");
  EXPECT_EQ(text_of(handled.errors), "err\n");

  handled = handle("exit 3");
  EXPECT_EQ(handled.outcome.kind, Outcome::kRetry);
  EXPECT_EQ(handled.outcome.reason, "exit 3");
  EXPECT_EQ(handled.outcome.exit, 3);
  EXPECT_EQ(handled.outcome.stderr_tail, "err\n");

  handled = handle("exit 65");
  EXPECT_EQ(handled.outcome.kind, Outcome::kFailed);
  EXPECT_EQ(handled.outcome.reason, "exit 65");

  handled = handle("kill -SEGV $$");
  EXPECT_EQ(handled.outcome.kind, Outcome::kRetry);
  EXPECT_EQ(handled.outcome.reason, "killed by SIGSEGV");
  EXPECT_EQ(handled.signal, SIGSEGV);
  EXPECT_FALSE(handled.outcome.exit.has_value());
  EXPECT_TRUE(failures_.empty());
}

TEST_F(SpawnHandler, OnlyTheEndOfMuchStderrIsInTheOutcome) {
  make_shell("head -c 100000 /dev/zero | tr '\\0' x >&2; echo last >&2; exit 1");
  const Handled handled = handle("x");
  EXPECT_EQ(handled.outcome.stderr_tail.size(), 4096u);
  EXPECT_TRUE(handled.outcome.stderr_tail.ends_with("xlast\n"));
  EXPECT_EQ(handled.errors.size(), 100'005u);
}

TEST_F(SpawnHandler, AProgramThatIsNotThereEndsTheRunOnce) {
  make({.argv = {"no-such-program-here"}});
  EXPECT_EQ(handle("x").outcome.kind, Outcome::kRetry);
  EXPECT_EQ(handle("x").outcome.kind, Outcome::kRetry);
  ASSERT_EQ(failures_.size(), 1u);
  EXPECT_EQ(failures_[0].code, ErrorCode::kIo);
  EXPECT_NE(failures_[0].message.find("no-such-program-here"), std::string::npos);
}

TEST_F(SpawnHandler, AProgramThatARecordNamesIsThatRecordsConcern) {
  make({.argv = {"{}"}});
  EXPECT_EQ(handle("no-such-program-here").outcome.kind, Outcome::kRetry);
  EXPECT_EQ(handle("/bin/true").outcome.kind, Outcome::kDone);
  EXPECT_TRUE(failures_.empty());
}

TEST_F(SpawnHandler, WhatNoCommandLineCanHoldIsAPermanentFailure) {
  make({.argv = {"/bin/echo", "{}"}});
  Handled handled = handle(std::string(1'000'000, 'x'));
  EXPECT_EQ(handled.outcome.kind, Outcome::kFailed);
  EXPECT_NE(handled.outcome.reason.find("too long for a command line"), std::string::npos);
  handled = handle(std::string("a\0b", 3));
  EXPECT_EQ(handled.outcome.kind, Outcome::kFailed);
  EXPECT_NE(handled.outcome.reason.find("NUL"), std::string::npos);
  EXPECT_TRUE(failures_.empty());
}

TEST_F(SpawnHandler, AKeyWithANulByteIsAPermanentFailure) {
  make({.argv = {"/bin/true"}});
  const TestRecord record("x", "f:7", std::string("a\0b", 3));
  const Handled handled = sync_wait(loop_, handler_->handle(record.call()));
  EXPECT_EQ(handled.outcome.kind, Outcome::kFailed);
  EXPECT_NE(handled.outcome.reason.find("KEYWAY_KEY"), std::string::npos);
}

TEST_F(SpawnHandler, ARecordWithoutTheValueIsAPermanentFailure) {
  make({.argv = {"/bin/echo", "{.a.b}"}});
  const Handled handled = handle("{}");
  EXPECT_EQ(handled.outcome.kind, Outcome::kFailed);
  EXPECT_EQ(handled.outcome.reason, "no value at .a.b");
}

TEST_F(SpawnHandler, ItAndWhatItStartedEndWithTheTimeout) {
  make({.argv = {"/bin/sh", "-c", "sleep 1000 & sleep 1000"}, .timeout = 50ms, .grace = 10s});
  const Handled handled = handle("x");
  EXPECT_EQ(handled.outcome.kind, Outcome::kRetry);
  EXPECT_EQ(handled.outcome.reason, "took longer than 50 ms");
  EXPECT_TRUE(handled.timed_out);
  EXPECT_EQ(handled.signal, SIGTERM);
}

TEST(SpawnHandlerInVirtualTime, OneThatIgnoresTheTermIsKilledAfterTheGrace) {
  testing::SimScheduler sim;
  FakeProcesses processes(
      sim, [](const Command&) { return FakeProcess{.runs_for = 24h, .ignores_term = true}; });
  auto handler =
      make_spawn_handler({.argv = {"x"}, .timeout = 30s, .grace = 5s}, sim, processes).value();
  const TestRecord record("text");
  const TimePoint start = sim.now();
  const Handled handled = sync_wait(sim, handler->handle(record.call()));
  EXPECT_EQ(sim.now() - start, 35s);
  EXPECT_EQ(handled.outcome.reason, "took longer than " + human_duration(30s));
  EXPECT_TRUE(handled.timed_out);
  EXPECT_EQ(handled.signal, SIGKILL);
  EXPECT_EQ(processes.inputs(), std::vector<std::string>{"text\n"});
}

// Ends an attempt from outside, after a while.
struct EndLater final : Timer {
  EndLater(Handler& of, int with) : handler(of), signal(with) {}
  void fire() override {
    description = handler.describe_running();
    handler.end(signal);
  }
  Handler& handler;
  int signal;
  std::string description;
};

TEST(SpawnHandlerInVirtualTime, WhatRunsIsNamedAndEnded) {
  for (const int signal : {SIGTERM, SIGKILL}) {
    testing::SimScheduler sim;
    FakeProcesses processes(sim, [](const Command&) { return FakeProcess{.runs_for = 24h}; });
    auto handler = make_spawn_handler({.argv = {"x"}}, sim, processes).value();
    EXPECT_EQ(handler->describe_running(), "");
    EndLater later(*handler, signal);
    sim.add_timer(later, sim.now() + 2500ms);
    const TestRecord record("text");
    const Handled handled = sync_wait(sim, handler->handle(record.call()));
    EXPECT_EQ(later.description, "f:7  key u7  pid 1001  try 1  since 2.5 s");
    EXPECT_EQ(handled.outcome.kind, Outcome::kRetry);
    EXPECT_EQ(handled.signal, signal);
    EXPECT_FALSE(handled.timed_out);
  }
}

TEST(SpawnHandlerInVirtualTime, ASystemWithoutRoomForAProcessIsARetry) {
  testing::SimScheduler sim;
  FakeProcesses processes(
      sim, [](const Command&) { return FakeProcess{.status = 125, .failure = "no room"}; });
  auto handler = make_spawn_handler({.argv = {"x"}}, sim, processes).value();
  bool failed = false;
  handler->on_failure = [&](const Error&) { failed = true; };
  const TestRecord record("text");
  const Handled handled = sync_wait(sim, handler->handle(record.call()));
  EXPECT_EQ(handled.outcome.kind, Outcome::kRetry);
  EXPECT_EQ(handled.outcome.reason, "no room");
  EXPECT_FALSE(failed);
}

}  // namespace
}  // namespace keyway::run
