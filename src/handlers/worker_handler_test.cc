#include <csignal>
#include <functional>
#include <map>

#include <gtest/gtest.h>

#include "base/human_text.h"
#include "handlers/attempts_fixture.h"
#include "handlers/handlers.h"
#include "keyway/testing/sim_scheduler.h"
#include "process/fake_processes.h"

namespace keyway::run {
namespace {

using namespace std::chrono_literals;

constexpr const char* kReady = "{\"v\":1,\"type\":\"ready\"}\n";

std::string done_line(std::string_view id) {
  return "{\"id\":\"" + std::string(id) + "\",\"ok\":true}\n";
}

// The id of a job line; empty for hello.
std::string id_in(std::string_view line) {
  const std::size_t at = line.find("\"id\":\"");
  if (at == std::string_view::npos) return {};
  line.remove_prefix(at + 6);
  return std::string(line.substr(0, line.find('"')));
}

class Workers : public ::testing::Test {
 protected:
  using Script = std::function<void(FakeStdio&, std::string_view id)>;

  // A process that is ready at once, does what `script` says with each job, and exits at the end of its input.
  static FakeProcess worker(Script script, Duration until_ready = {}) {
    auto unread = std::make_shared<std::string>();
    return {.runs_for = 1000h,
            .on_input = [script = std::move(script), until_ready, unread](FakeStdio& stdio,
                                                                          std::string_view text) {
              if (text.empty()) return stdio.exit(0);
              *unread += text;
              for (std::size_t end = 0; (end = unread->find('\n')) != std::string::npos;) {
                const std::string id = id_in(unread->substr(0, end));
                unread->erase(0, end + 1);
                if (id.empty()) {
                  stdio.write(Stream::kOut, kReady, until_ready);
                } else {
                  script(stdio, id);
                }
              }
            }};
  }
  static void answer(FakeStdio& stdio, std::string_view id) {
    stdio.write(Stream::kOut, done_line(id), 10ms);
  }

  void make(WorkerOptions options) {
    if (options.argv.empty()) options.argv = {"work"};
    options.on_stderr = [this](std::string_view lines) { errors_ += lines; };
    Result<std::unique_ptr<Handler>> made =
        make_worker_handler(std::move(options), sim_, processes_);
    ASSERT_TRUE(made.ok()) << made.error().message;
    handler_ = std::move(*made);
    handler_->on_failure = [this](const Error& error) { failures_.push_back(error); };
  }
  Attempts::One& start(const std::string& value, const std::string& id) {
    return attempts_.start(*handler_, value, id);
  }
  // One record, to its end.
  Handled handle(const std::string& value, const std::string& id = "f:1") {
    const TestRecord record(value, id);
    return sync_wait(sim_, handler_->handle(record.call()));
  }

  testing::SimScheduler sim_;
  Attempts attempts_{sim_};
  std::function<FakeProcess(int started)> starts_ = [](int) { return worker(answer); };
  FakeProcesses processes_{sim_, [this](const Command&) { return starts_(processes_.started()); }};
  std::unique_ptr<Handler> handler_;
  std::vector<Error> failures_;
  std::string errors_;
};

TEST_F(Workers, AWorkerStartsWithItsFirstRecordAndIsKept) {
  make({.workers = 4, .run_id = "r1"});
  sim_.run_until_idle();
  EXPECT_EQ(processes_.started(), 0);
  for (int i = 1; i <= 3; ++i) {
    EXPECT_EQ(handle("{}", "f:" + std::to_string(i)).outcome.kind, Outcome::kDone);
  }
  EXPECT_EQ(processes_.started(), 1) << "an idle one is used before another is started";
  EXPECT_EQ(processes_.inputs()[0].substr(0, processes_.inputs()[0].find('\n')),
            R"({"v":1,"type":"hello","run":"r1","worker":1,"max_inflight":1})");
  EXPECT_NE(
      processes_.inputs()[0].find(
          R"({"type":"job","id":"f:3","key":"u7","group":"vip","seq":7,"attempt":1,"record":{}})"),
      std::string::npos);
}

TEST_F(Workers, RecordsAtOnceHaveAWorkerEachUpToTheMost) {
  make({.workers = 3});
  std::vector<Attempts::One*> ones;
  for (int i = 1; i <= 5; ++i) ones.push_back(&start("{}", "f:" + std::to_string(i)));
  const TimePoint begin = sim_.now();
  sim_.run_until_idle();
  EXPECT_EQ(processes_.started(), 3);
  for (Attempts::One* one : ones) EXPECT_EQ(one->handled().outcome.kind, Outcome::kDone);
  EXPECT_GE(sim_.now() - begin, 20ms);
}

TEST_F(Workers, AnAnswerSaysWhatBecameOfTheRecord) {
  starts_ = [](int) {
    return worker([](FakeStdio& stdio, std::string_view id) {
      const std::map<std::string, std::string> rest = {
          {"out", R"("ok":true,"out":{"n": 1.50})"},
          {"retry", R"("ok":false,"error":"402","retry":true,"retry_after_ms":500)"},
          {"dead", R"("ok":false,"error":"never","retry":false)"},
          {"bare", R"("ok":false)"}};
      stdio.write(Stream::kOut,
                  "{\"id\":\"" + std::string(id) + "\"," + rest.at(std::string(id)) + "}\n");
    });
  };
  make({.workers = 1});
  Handled handled = handle("1", "out");
  EXPECT_EQ(handled.outcome.kind, Outcome::kDone);
  EXPECT_EQ(text_of(handled.output), "{\"n\": 1.50}\n");
  handled = handle("1", "retry");
  EXPECT_EQ(handled.outcome.kind, Outcome::kRetry);
  EXPECT_EQ(handled.outcome.reason, "402");
  EXPECT_EQ(handled.outcome.delay, 500ms);
  handled = handle("1", "dead");
  EXPECT_EQ(handled.outcome.kind, Outcome::kFailed);
  EXPECT_EQ(handled.outcome.reason, "never");
  handled = handle("1", "bare");
  EXPECT_EQ(handled.outcome.kind, Outcome::kRetry);
  EXPECT_FALSE(handled.outcome.delay.has_value());
  EXPECT_EQ(processes_.started(), 1);
}

TEST_F(Workers, ALineMayComeInPiecesAndManyAtOnce) {
  auto taken = std::make_shared<std::vector<std::string>>();
  starts_ = [taken](int) {
    return worker([taken](FakeStdio& stdio, std::string_view id) {
      taken->emplace_back(id);
      if (taken->size() < 3) return;
      // In another order, three in one read but for the last letters.
      const std::string lines = done_line("f:3") + "\n" + done_line("f:1") + done_line("f:2");
      stdio.write(Stream::kOut, lines.substr(0, lines.size() - 5), 1ms);
      stdio.write(Stream::kOut, lines.substr(lines.size() - 5, 2), 2ms);
      stdio.write(Stream::kOut, lines.substr(lines.size() - 3), 3ms);
    });
  };
  make({.workers = 1, .max_inflight = 3});
  Attempts::One& first = start("1", "f:1");
  Attempts::One& second = start("2", "f:2");
  Attempts::One& third = start("3", "f:3");
  sim_.advance(0s);
  EXPECT_EQ(*taken, (std::vector<std::string>{"f:1", "f:2", "f:3"}));
  sim_.advance(2ms);
  EXPECT_TRUE(first.is_over);
  EXPECT_FALSE(second.is_over);
  EXPECT_TRUE(third.is_over);
  sim_.advance(1ms);
  EXPECT_TRUE(second.is_over);
  EXPECT_EQ(second.handled().outcome.kind, Outcome::kDone);
  EXPECT_EQ(processes_.started(), 1);
}

TEST_F(Workers, ADeadWorkerFailsItsAttemptAndIsStartedAgainLater) {
  starts_ = [](int started) {
    return worker([started](FakeStdio& stdio, std::string_view id) {
      if (started > 1) return answer(stdio, id);
      stdio.write(Stream::kErr, "no memory\n");
      stdio.exit(9, 1ms);
    });
  };
  make({.workers = 1});
  const Handled handled = handle("1", "f:1");
  EXPECT_EQ(handled.outcome.kind, Outcome::kRetry);
  EXPECT_EQ(handled.outcome.reason, "its worker died: exit 9");
  EXPECT_EQ(handled.outcome.exit, 9);
  EXPECT_EQ(handled.outcome.stderr_tail, "no memory\n");
  EXPECT_EQ(errors_, "no memory\n");
  sim_.run_until_idle();
  EXPECT_EQ(processes_.started(), 1) << "only with the next record that needs it";
  EXPECT_EQ(handle("2", "f:2").outcome.kind, Outcome::kDone);
  EXPECT_TRUE(failures_.empty());
}

TEST_F(Workers, TheBackoffDoublesAndFiveDeathsInARowEndTheRun) {
  std::vector<TimePoint> starts;
  starts_ = [&](int) {
    starts.push_back(sim_.now());
    return FakeProcess{.runs_for = 1ms, .status = 1, .err = "cannot import x\n"};
  };
  make({.argv = {"python3", "w.py"}, .workers = 8});
  const Handled handled = handle("1");
  EXPECT_EQ(handled.outcome.kind, Outcome::kRetry);
  ASSERT_EQ(starts.size(), 5u);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(starts[static_cast<std::size_t>(i) + 1] - starts[static_cast<std::size_t>(i)],
              1ms + 100ms * (1 << i));
  }
  ASSERT_EQ(failures_.size(), 1u);
  EXPECT_EQ(failures_[0].code, ErrorCode::kIo);
  EXPECT_EQ(
      failures_[0].message.substr(0, failures_[0].message.find('\n')),
      "worker \"python3 w.py\" died five times in a row: exit 1; its last words: cannot import x");
  EXPECT_EQ(handle("2").outcome.kind, Outcome::kRetry) << "at once, from now on";
  EXPECT_EQ(processes_.started(), 5);
  EXPECT_EQ(failures_.size(), 1u);
}

TEST_F(Workers, AnAnswerInBetweenForgivesDeaths) {
  starts_ = [](int) {
    return worker([](FakeStdio& stdio, std::string_view id) {
      if (id == "ok") return answer(stdio, id);
      stdio.exit(1);
    });
  };
  make({.workers = 1});
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(handle("1", i % 4 == 3 ? "ok" : "bad").outcome.kind,
              i % 4 == 3 ? Outcome::kDone : Outcome::kRetry);
  }
  EXPECT_TRUE(failures_.empty());
}

TEST_F(Workers, AProgramThatIsNotThereEndsTheRun) {
  starts_ = [](int) {
    return FakeProcess{.status = 127, .failure = "cannot run \"work\": not found in PATH"};
  };
  make({.workers = 2});
  EXPECT_EQ(handle("1").outcome.kind, Outcome::kRetry);
  ASSERT_EQ(failures_.size(), 1u);
  EXPECT_EQ(failures_[0].message.find("cannot run \"work\": not found in PATH"), 0u);
  EXPECT_EQ(processes_.started(), 1);
}

TEST_F(Workers, AShellThatDoesNotFindItsProgramDiesLikeOthers) {
  starts_ = [](int) { return FakeProcess{.status = 127, .err = "sh: 1: nope: not found\n"}; };
  make({.workers = 2});
  EXPECT_EQ(handle("1").outcome.kind, Outcome::kRetry);
  EXPECT_EQ(processes_.started(), 5);
  ASSERT_EQ(failures_.size(), 1u);
  EXPECT_NE(failures_[0].message.find("exit 127; its last words: sh: 1: nope"), std::string::npos);
}

TEST_F(Workers, OneThatDoesNotAnswerHelloIsADeath) {
  starts_ = [](int started) {
    if (started == 1) return FakeProcess{.runs_for = 1000h};
    return worker(answer, 9999ms);
  };
  make({.workers = 1});
  const TimePoint begin = sim_.now();
  EXPECT_EQ(handle("1").outcome.kind, Outcome::kDone) << "no attempt is lost by it";
  EXPECT_EQ(sim_.now() - begin, 10s + 100ms + 9999ms + 10ms);
  ASSERT_FALSE(processes_.signals().empty());
  EXPECT_EQ(processes_.signals()[0].signal, SIGKILL);
}

TEST_F(Workers, AWorkerThatBreaksTheProtocolIsReplaced) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"Traceback (most recent call last):\n", "is no JSON object: Traceback (most"},
      {done_line("other"), "answered a record that it does not have: other"},
      {kReady, "was ready already"},
      {"{\"v\":2,\"id\":\"f:1\",\"ok\":true}\n", "speaks version 2, not 1"},
      {std::string(200, 'x') + "\n", ": " + std::string(80, 'x') + "..."},
      {std::string((16 << 20) + 1, 'x'), "wrote a line over 16 MiB: " + std::string(80, 'x')},
  };
  for (const auto& [garbage, reason] : cases) {
    auto is_bad = std::make_shared<bool>(true);
    starts_ = [&line = garbage, is_bad](int) {
      return worker([&line, is_bad](FakeStdio& stdio, std::string_view id) {
        if (!std::exchange(*is_bad, false)) return answer(stdio, id);
        stdio.write(Stream::kOut, line);
      });
    };
    make({.workers = 1});
    const Handled handled = handle("1");
    EXPECT_EQ(handled.outcome.kind, Outcome::kRetry);
    EXPECT_NE(handled.outcome.reason.find(reason), std::string::npos) << handled.outcome.reason;
    EXPECT_EQ(handled.signal, SIGKILL);
    EXPECT_EQ(handle("1").outcome.kind, Outcome::kDone);
    handler_.reset();
  }
}

TEST_F(Workers, AProgramThatKnowsNothingOfTheProtocolEndsTheRun) {
  starts_ = [](int) {  // cat
    return FakeProcess{.runs_for = 1000h, .on_input = [](FakeStdio& stdio, std::string_view text) {
                         if (!text.empty()) stdio.write(Stream::kOut, std::string(text));
                       }};
  };
  make({.argv = {"cat"}, .workers = 1});
  EXPECT_EQ(handle("1").outcome.kind, Outcome::kRetry);
  ASSERT_EQ(failures_.size(), 1u);
  EXPECT_NE(failures_[0].message.find("died five times in a row: it wrote a line that has no "
                                      "\"id\" and \"ok\": {\"v\":1,\"type\":\"hello\""),
            std::string::npos)
      << failures_[0].message;
}

TEST_F(Workers, OneThatHangsIsEndedWithItsTimeout) {
  starts_ = [](int started) {
    FakeProcess process = worker([](FakeStdio& stdio, std::string_view id) {
      if (id != "hang") answer(stdio, id);
    });
    process.ignores_term = started == 1;
    return process;
  };
  make({.workers = 1, .timeout = 30s, .grace = 5s});
  EXPECT_EQ(handle("1", "f:1").outcome.kind, Outcome::kDone);
  sim_.advance(20s);
  const TimePoint begin = sim_.now();
  const Handled handled = handle("2", "hang");
  EXPECT_EQ(sim_.now() - begin, 35s) << "since it was given to the worker";
  EXPECT_EQ(handled.outcome.kind, Outcome::kRetry);
  EXPECT_EQ(handled.outcome.reason, "took longer than " + human_duration(30s));
  EXPECT_TRUE(handled.timed_out);
  EXPECT_EQ(handled.signal, SIGKILL);
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(handle("3", "hang").timed_out);
  EXPECT_TRUE(failures_.empty()) << "to be slow is no death";
  EXPECT_EQ(handle("4", "f:4").outcome.kind, Outcome::kDone);
  EXPECT_NE(processes_.inputs()[0].find("\"deadline_ms\":30000"), std::string::npos);
}

TEST_F(Workers, WhoSharesAWorkerThatIsEndedIsTriedAgain) {
  starts_ = [](int) {
    return worker([](FakeStdio& stdio, std::string_view id) {
      if (id == "f:3") answer(stdio, id);
    });
  };
  make({.workers = 1, .max_inflight = 4, .timeout = 30s});
  Attempts::One& hangs = start("1", "f:1");
  sim_.advance(10s);
  Attempts::One& waits = start("2", "f:2");
  Attempts::One& is_done = start("3", "f:3");
  sim_.advance(1s);
  EXPECT_TRUE(is_done.is_over);
  sim_.run_until_idle();
  EXPECT_TRUE(hangs.handled().timed_out);
  const Handled other = waits.handled();
  EXPECT_FALSE(other.timed_out);
  EXPECT_EQ(other.outcome.kind, Outcome::kRetry);
  EXPECT_EQ(other.outcome.reason,
            "its worker was ended: record f:1 took longer than " + human_duration(30s));
}

TEST_F(Workers, SeveralInFlightAreSpreadOverTheWorkers) {
  starts_ = [](int) { return worker([](FakeStdio&, std::string_view) {}); };
  make({.workers = 2, .max_inflight = 3});
  for (int i = 1; i <= 8; ++i) start("1", "f:" + std::to_string(i));
  sim_.advance(0s);
  ASSERT_EQ(processes_.started(), 2);
  for (const std::string& input : processes_.inputs()) {
    EXPECT_EQ(std::count(input.begin(), input.end(), '\n'), 1 + 3) << input;
  }
  const std::string running = handler_->describe_running();
  EXPECT_EQ(std::count(running.begin(), running.end(), '\n'), 7) << running;
  EXPECT_TRUE(running.ends_with("\nf:7  waits for a worker\nf:8  waits for a worker")) << running;
  handler_->end(SIGKILL);
  sim_.run_until_idle();
}

TEST_F(Workers, ARecordThatNoLineHoldsIsAPermanentFailure) {
  make({.workers = 1});
  const Handled handled = handle(std::string((16 << 20) + 1, '1'));
  EXPECT_EQ(handled.outcome.kind, Outcome::kFailed);
  EXPECT_NE(handled.outcome.reason.find("over 16 MiB"), std::string::npos);
  EXPECT_EQ(handle("1").outcome.kind, Outcome::kDone) << "the worker goes on";
  EXPECT_EQ(processes_.started(), 1);
}

TEST_F(Workers, StderrPassesThroughLineByLine) {
  starts_ = [](int) {
    return worker([](FakeStdio& stdio, std::string_view id) {
      stdio.write(Stream::kErr, "one\ntw", 1ms);
      stdio.write(Stream::kErr, "o\nthree", 2ms);
      answer(stdio, id);
    });
  };
  make({.workers = 1});
  start("1", "f:1");
  sim_.advance(1ms);
  EXPECT_EQ(errors_, "one\n");
  sim_.advance(1ms);
  EXPECT_EQ(errors_, "one\ntwo\n");
  handler_->no_more();
  sim_.run_until_idle();
  EXPECT_EQ(errors_, "one\ntwo\nthree\n");
}

TEST_F(Workers, AfterTheLastRecordTheirInputIsClosed) {
  make({.workers = 2, .grace = 5s});
  Attempts::One& one = start("1", "f:1");
  sim_.advance(0s);
  handler_->no_more();
  sync_wait(sim_, handler_->finished());
  EXPECT_TRUE(one.is_over) << "not before its answer";
  EXPECT_EQ(one.handled().outcome.kind, Outcome::kDone);
  EXPECT_TRUE(processes_.signals().empty());
  EXPECT_EQ(processes_.running(), 0);
  EXPECT_TRUE(failures_.empty());
}

TEST_F(Workers, OneThatDoesNotExitThenIsEnded) {
  starts_ = [](int) {
    FakeProcess process = worker(answer);
    process.on_input = [inner = process.on_input](FakeStdio& stdio, std::string_view text) {
      if (!text.empty()) inner(stdio, text);
    };
    return process;
  };
  make({.workers = 1, .grace = 5s});
  handle("1");
  handler_->no_more();
  const TimePoint begin = sim_.now();
  sync_wait(sim_, handler_->finished());
  EXPECT_EQ(sim_.now() - begin, 5s);
  ASSERT_FALSE(processes_.signals().empty());
  EXPECT_EQ(processes_.signals()[0].signal, SIGTERM);
}

TEST_F(Workers, EndEndsWhatRunsAndWhatWaits) {
  for (const int signal : {SIGTERM, SIGKILL}) {
    starts_ = [](int) { return worker([](FakeStdio&, std::string_view) {}); };
    make({.workers = 1});
    Attempts::One& runs = start("1", "f:1");
    Attempts::One& waits = start("2", "f:2");
    sim_.advance(1s);
    EXPECT_NE(handler_->describe_running().find("f:1  key u7  pid "), std::string::npos);
    handler_->end(signal);
    sync_wait(sim_, handler_->finished());
    sim_.run_until_idle();
    ASSERT_TRUE(runs.is_over && waits.is_over);
    const Handled handled = runs.handled();
    EXPECT_EQ(handled.outcome.kind, Outcome::kRetry);
    EXPECT_EQ(handled.signal, signal);
    EXPECT_EQ(waits.handled().outcome.kind, Outcome::kRetry);
    EXPECT_EQ(handle("3").outcome.kind, Outcome::kRetry) << "nothing is started any more";
    EXPECT_TRUE(failures_.empty());
  }
}

TEST_F(Workers, AnyOrderOfEventsEndsEveryAttemptOnce) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    testing::SimScheduler sim(seed);
    FakeProcesses processes(sim, [&](const Command&) {
      return worker(
          [&](FakeStdio& stdio, std::string_view id) {
            const std::uint64_t dice = sim.random_below(20);
            const Duration after = 1ms * sim.random_below(30);
            if (dice == 0) return stdio.exit(1, after);
            if (dice == 1) return stdio.write(Stream::kOut, "garbage\n", after);
            if (dice == 2) return;
            stdio.write(Stream::kOut, done_line(id), after);
          },
          1ms * sim.random_below(3));
    });
    Result<std::unique_ptr<Handler>> handler =
        make_worker_handler({.argv = {"w"},
                             .workers = 3,
                             .max_inflight = 1 + static_cast<int>(seed % 3),
                             .timeout = 25ms,
                             .grace = 1s},
                            sim, processes);
    Attempts attempts(sim);
    std::vector<Attempts::One*> ones;
    for (int i = 0; i < 60; ++i) {
      ones.push_back(&attempts.start(**handler, "1", "f:" + std::to_string(i)));
      if (sim.random_below(3) == 0) sim.advance(1ms * sim.random_below(40));
    }
    if (seed % 4 == 0) (*handler)->end(SIGTERM);
    while (!std::all_of(ones.begin(), ones.end(), [](auto* one) { return one->is_over; })) {
      ASSERT_TRUE(sim.run_one()) << "seed " << seed;
    }
    (*handler)->no_more();
    handler->reset();
    sim.run_until_idle();
    EXPECT_EQ(processes.running(), 0) << "seed " << seed;
  }
}

}  // namespace
}  // namespace keyway::run
