// A run in virtual time: how it is counted, stopped and logged.
#include "run/stream_run.h"

#include <csignal>
#include <fstream>
#include <list>
#include <map>
#include <sstream>

#include <fcntl.h>

#include <gtest/gtest.h>

#include "base/file_descriptor.h"
#include "keyway/rest.h"
#include "keyway/testing/sim_scheduler.h"
#include "stream/fake_source.h"
#include "support/temporary_folder.h"

namespace keyway::run {
namespace {

using namespace std::chrono_literals;
using jobs::Ending;
using Ids = std::vector<std::string>;

// One try of a record.
struct Does {
  Duration takes = 1s;
  Outcome outcome = done();
  bool ignores_term = false;
  bool times_out = false;
  std::string out;
  std::string err;
};

// Does with each record what its value says; ends what runs when it is told to.
class FakeHandler final : public Handler {
 public:
  explicit FakeHandler(testing::SimScheduler& sim) : sim_(sim) {}

  Task<Handled> handle(Call call) override {
    const std::vector<Does>& tries = does[std::string(call.record->value)];
    const auto which = static_cast<std::size_t>(call.attempt.number - 1);
    const Does now = which < tries.size() ? tries[which] : tries.empty() ? Does{} : tries.back();
    EXPECT_TRUE(slots.insert(call.slot).second) << "two have the same slot";
    handled_ids.emplace_back(call.id);
    const TimePoint until = sim_.now() + now.takes;
    bool ended = false;
    while (sim_.now() < until && !ended) {
      const Duration step = std::min<Duration>(until - sim_.now(), 100ms);
      co_await sleep_for(step);
      ended = signal == SIGKILL || (signal == SIGTERM && !now.ignores_term);
    }
    slots.erase(call.slot);
    Handled handled;
    handled.outcome = ended ? retry("killed") : now.outcome;
    handled.timed_out = !ended && now.times_out;
    handled.signal = ended ? signal : 0;
    handled.output.append(now.out);
    handled.errors.append(now.err);
    if (fails_after == static_cast<int>(handled_ids.size()) && on_failure) {
      fails_after = 0;
      on_failure({ErrorCode::kIo, "no worker lives"});
    }
    co_return handled;
  }
  void end(int with) override { signal = with; }
  void no_more() override { told_the_end = true; }
  Task<> finished() override {
    EXPECT_TRUE(told_the_end);
    while (lingers && signal == 0) co_await sleep_for(100ms);
  }
  std::string describe_running() const override { return "f:1  key a\nf:2  key b"; }

  std::map<std::string, std::vector<Does>> does;
  Ids handled_ids;
  std::set<int> slots;
  int signal = 0;
  int fails_after = 0;
  bool told_the_end = false;
  bool lingers = false;

 private:
  testing::SimScheduler& sim_;
};

class KeptLetters final : public DeadLetters {
 public:
  Result<void> store(const DeadLetter& letter) override {
    if (error) return *error;
    ids.emplace_back(letter.id);
    return {};
  }
  Ids ids;
  std::optional<Error> error;
};

class StreamRunTest : public ::testing::Test {
 protected:
  StreamRunTest() {
    options_.sources = {"fake"};
    options_.key = ".";
    options_.jobs = 1;
    options_.retries = 0;
    options_.backoff = {100ms, 100ms};
    host_.out = out_.get();
    host_.err = err_.get();
    host_.seed = 1;
    host_.notice = [this](std::string_view text) { notices_ += std::string(text) + "\n"; };
    host_.attempt_ended = [this](const LoggedAttempt& attempt) {
      ends_.push_back(attempt.id + " " + jobs::to_string(attempt.outcome) +
                      (attempt.final ? "" : "..."));
    };
  }

  void records(const Ids& values) {
    for (const std::string& value : values) {
      log_.partitions[0].push_back({value.substr(0, 1), value});
    }
  }
  void at(Duration time, std::function<void(StreamRun&)> what) {
    planned_.emplace_back(time, std::move(what));
  }
  void signal_at(Duration time, int signal) {
    at(time, [signal](StreamRun& run) { run.signal_received(signal); });
  }

  Result<jobs::Summary> try_run() {
    FakeSource source(log_);
    source.on_commit = on_commit_;
    source.poll_error = poll_error_;
    std::optional<jobs::JobLog> log;
    if (Result<jobs::JobLog> opened = jobs::JobLog::open(log_file()); opened) {
      log = std::move(*opened);
    }
    StreamRun run(options_,
                  {.source = source,
                   .handler = handler_,
                   .classify = {},
                   .dead_letters = letters_,
                   .handled_ids = nullptr,
                   .log = &*log,
                   .position =
                       [this] {
                         const auto lines = log_.partitions[0].size();
                         return InputPosition{.records = lines, .total_records = lines};
                       }},
                  sim_, host_);
    struct At final : Timer {
      void fire() override { what(*run); }
      StreamRun* run = nullptr;
      std::function<void(StreamRun&)> what;
    };
    std::list<At> timers;
    for (auto& [time, what] : planned_) {
      At& timer = timers.emplace_back();
      timer.run = &run;
      timer.what = what;
      sim_.add_timer(timer, sim_.now() + time);
    }
    const TimePoint began = sim_.now();
    Result<jobs::Summary> summary = run.run();
    took_ = sim_.now() - began;
    for (At& timer : timers) sim_.cancel_timer(timer);
    planned_.clear();
    return summary;
  }
  jobs::Summary run() {
    Result<jobs::Summary> summary = try_run();
    EXPECT_TRUE(summary) << (summary ? "" : summary.error().message);
    return summary ? *summary : jobs::Summary{};
  }

  std::string log_file() const { return folder_.file("joblog.jsonl"); }
  static std::string text_of(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  std::string out() const { return text_of(folder_.file("out")); }
  std::string err() const { return text_of(folder_.file("err")); }
  FileDescriptor made(const char* name) const {
    return FileDescriptor(open(folder_.file(name).c_str(), O_RDWR | O_CREAT | O_APPEND, 0600));
  }

  testing::SimScheduler sim_;
  const TemporaryFolder folder_;
  const FileDescriptor out_ = made("out");
  const FileDescriptor err_ = made("err");
  FakeLog log_;
  FakeHandler handler_{sim_};
  std::shared_ptr<KeptLetters> letters_ = std::make_shared<KeptLetters>();
  RunOptions options_;
  RunHost host_;
  std::function<Result<void>(std::span<const Progress>)> on_commit_;
  std::optional<Error> poll_error_;
  std::vector<std::pair<Duration, std::function<void(StreamRun&)>>> planned_;
  Ids ends_;
  std::string notices_;
  Duration took_{};
};

// ---- what is counted

TEST_F(StreamRunTest, CountsWhatIsDoneRepeatedAndDead) {
  options_.jobs = 4;
  options_.retries = 1;
  records({"a", "b", "c", "d"});
  handler_.does["b"] = {{.outcome = retry()}, {}};
  handler_.does["c"] = {{.outcome = retry()}};
  handler_.does["d"] = {{.outcome = permanent_failure("no")}};
  const jobs::Summary summary = run();
  EXPECT_EQ(summary.ending, Ending::kFinished);
  EXPECT_EQ(summary.jobs, 4u);
  EXPECT_EQ(summary.groups, 4u);
  EXPECT_EQ(summary.ok, 2u);
  EXPECT_EQ(summary.ok_after_retry, 1u);
  EXPECT_EQ(summary.failed, 2u);
  EXPECT_EQ(summary.not_run, 0u);
  EXPECT_EQ(letters_->ids, (Ids{"0:3", "0:2"}));
}

TEST_F(StreamRunTest, ATimeoutOfTheLastTryIsCounted) {
  records({"a"});
  handler_.does["a"] = {{.outcome = retry(), .times_out = true}};
  const jobs::Summary summary = run();
  EXPECT_EQ(summary.timed_out, 1u);
  EXPECT_EQ(summary.failed, 1u);
  EXPECT_EQ(ends_, (Ids{"0:0 timeout"}));
}

TEST_F(StreamRunTest, TheKeyThatTookMostOfTheRunBoundIt) {
  options_.jobs = 4;
  records({"a1", "b", "a2", "c", "a3"});
  const jobs::Summary summary = run();
  EXPECT_EQ(took_, 3s);
  EXPECT_EQ(summary.bound_by, "a");
  EXPECT_EQ(summary.bound_jobs, 3u);
  EXPECT_EQ(summary.bound_time, 3s);
}

TEST_F(StreamRunTest, ProgressKnowsKeysThatWait) {
  records({"a1", "a2", "b"});
  jobs::Progress seen;
  at(500ms, [&](StreamRun& run) { seen = run.progress(); });
  run();
  EXPECT_EQ(seen.total, 3u);
  EXPECT_EQ(seen.ended, 0u);
  EXPECT_EQ(seen.running, 1);
  EXPECT_EQ(seen.jobs, 1);
  EXPECT_EQ(seen.groups, 2u);
  EXPECT_EQ(seen.groups_waiting, 2u);
}

TEST_F(StreamRunTest, RecordsOfAParkedKeyAreDeadWithoutATry) {
  options_.on_dead = OnDead::kPark;
  records({"a1", "a2", "b"});
  handler_.does["a1"] = {{.outcome = permanent_failure("no")}};
  jobs::Progress last;
  at(2500ms, [&](StreamRun& run) { last = run.progress(); });
  const jobs::Summary summary = run();
  EXPECT_EQ(summary.failed, 2u);
  EXPECT_EQ(ends_, (Ids{"0:0 failed", "0:2 ok"}));
  EXPECT_EQ(last.groups_waiting, 0u);
}

// ---- how it is stopped

TEST_F(StreamRunTest, TheFirstSignalLetsFinishWhatRuns) {
  records({"a", "b"});
  handler_.does["a"] = {{.takes = 20s}};
  signal_at(1s, SIGINT);
  const jobs::Summary summary = run();
  EXPECT_EQ(summary.ending, Ending::kInterrupted);
  EXPECT_FALSE(summary.failure);
  EXPECT_EQ(ends_, (Ids{"0:0 ok"}));
  EXPECT_EQ(summary.not_run, 1u);
  EXPECT_EQ(took_, 20s);
  EXPECT_EQ(log_.committed[0].watermark, 1);
  EXPECT_EQ(handler_.signal, 0);
}

TEST_F(StreamRunTest, WhatTakesLongerThanTheGraceIsEndedAndLeft) {
  records({"a"});
  handler_.does["a"] = {{.takes = 1h}};
  signal_at(1s, SIGTERM);
  const jobs::Summary summary = run();
  EXPECT_EQ(summary.ending, Ending::kTerminated);
  EXPECT_FALSE(summary.failure);
  EXPECT_EQ(ends_, (Ids{"0:0 cancelled..."}));
  EXPECT_NEAR(std::chrono::duration<double>(took_).count(), 31, 0.2);
  EXPECT_TRUE(letters_->ids.empty()) << "it was the last try, but not the record's fault";
  EXPECT_EQ(log_.committed[0].watermark, 0);
  EXPECT_NE(notices_.find("the grace is over"), std::string::npos);
}

TEST_F(StreamRunTest, TheSecondSignalEndsAndTheThirdKills) {
  records({"a", "b"});
  handler_.does["a"] = {{.takes = 1h, .ignores_term = true}};
  signal_at(1s, SIGINT);
  signal_at(2s, SIGINT);
  at(2500ms, [this](StreamRun&) { EXPECT_EQ(handler_.signal, SIGTERM); });
  signal_at(3s, SIGTERM);
  const jobs::Summary summary = run();
  EXPECT_EQ(handler_.signal, SIGKILL);
  EXPECT_NEAR(std::chrono::duration<double>(took_).count(), 3, 0.2);
  EXPECT_EQ(summary.ending, Ending::kInterrupted) << "the first one decides";
  EXPECT_EQ(handler_.handled_ids, (Ids{"0:0"}));
}

TEST_F(StreamRunTest, AHangupDrainsAndNoMore) {
  records({"a", "b"});
  handler_.does["a"] = {{.takes = 20s}};
  signal_at(1s, SIGHUP);
  signal_at(2s, SIGHUP);
  const jobs::Summary summary = run();
  EXPECT_EQ(summary.ending, Ending::kTerminated);
  EXPECT_EQ(ends_, (Ids{"0:0 ok"}));
  EXPECT_EQ(handler_.signal, 0);
}

TEST_F(StreamRunTest, ARecordThatWaitsForItsNextTryDoesNotHoldUpTheEnd) {
  options_.retries = 3;
  options_.backoff = {1h, 1h};
  records({"a"});
  handler_.does["a"] = {{.outcome = retry({}, 1h)}};
  signal_at(10s, SIGTERM);
  const jobs::Summary summary = run();
  EXPECT_EQ(took_, 10s);
  EXPECT_EQ(summary.not_run, 1u);
}

TEST_F(StreamRunTest, WhatWasLeftIsHandledByTheNextRun) {
  records({"a", "b", "c"});
  signal_at(500ms, SIGTERM);
  run();
  EXPECT_EQ(handler_.handled_ids, (Ids{"0:0"}));
  run();
  EXPECT_EQ(handler_.handled_ids, (Ids{"0:0", "0:1", "0:2"}));
}

TEST_F(StreamRunTest, WorkersThatDoNotExitAfterTheLastRecordAreEnded) {
  records({"a"});
  handler_.lingers = true;
  const jobs::Summary summary = run();
  EXPECT_EQ(summary.ending, Ending::kFinished);
  EXPECT_EQ(handler_.signal, SIGTERM);
  EXPECT_NEAR(std::chrono::duration<double>(took_).count(), 31, 0.2);
}

// ---- failures

TEST_F(StreamRunTest, AHandlerThatFailsForGoodEndsTheRunAndCostsNoRecord) {
  options_.jobs = 2;
  records({"a", "b", "c"});
  handler_.does["b"] = {{.takes = 1h}};
  handler_.does["a"] = {{.outcome = retry("died")}};
  handler_.fails_after = 2;
  const jobs::Summary summary = run();
  EXPECT_EQ(summary.ending, Ending::kHandlerFailed);
  ASSERT_TRUE(summary.failure);
  EXPECT_EQ(summary.failure->message, "no worker lives");
  EXPECT_EQ(summary.failed, 0u);
  EXPECT_TRUE(letters_->ids.empty());
  EXPECT_EQ(log_.committed[0].watermark, 0);
}

TEST_F(StreamRunTest, ADeadLetterThatCannotBeStoredEndsTheRun) {
  records({"a", "b"});
  handler_.does["a"] = {{.outcome = permanent_failure("no")}};
  letters_->error = Error{ErrorCode::kIo, "no room"};
  const jobs::Summary summary = run();
  ASSERT_TRUE(summary.failure);
  EXPECT_EQ(summary.failure->message, "no room");
  EXPECT_EQ(summary.failed, 0u);
  EXPECT_EQ(log_.committed[0].watermark, 0);
}

TEST_F(StreamRunTest, ASourceThatFailsEndsTheRun) {
  records({"a"});
  poll_error_ = Error{ErrorCode::kIo, "it is gone"};
  const jobs::Summary summary = run();
  EXPECT_EQ(summary.ending, Ending::kInputFailed);
  ASSERT_TRUE(summary.failure);
  EXPECT_EQ(summary.failure->message, "it is gone");
}

TEST_F(StreamRunTest, HaltSoonLetsFinishWhatRuns) {
  options_.jobs = 2;
  options_.halt = {.when = jobs::Halt::When::kSoon, .fail = 1};
  records({"a", "b", "c"});
  handler_.does["a"] = {{.outcome = permanent_failure("no")}};
  handler_.does["b"] = {{.takes = 5s}};
  const jobs::Summary summary = run();
  EXPECT_EQ(summary.ending, Ending::kHalted);
  EXPECT_EQ(summary.ok, 1u);
  EXPECT_EQ(summary.failed, 1u);
  EXPECT_EQ(summary.not_run, 1u);
  EXPECT_EQ(took_, 5s);
}

TEST_F(StreamRunTest, HaltNowEndsWhatRuns) {
  options_.jobs = 2;
  options_.halt = {.when = jobs::Halt::When::kNow, .fail = 1};
  records({"a", "b", "c"});
  handler_.does["a"] = {{.outcome = permanent_failure("no")}};
  handler_.does["b"] = {{.takes = 1h}};
  const jobs::Summary summary = run();
  EXPECT_EQ(summary.ending, Ending::kHalted);
  EXPECT_EQ(handler_.signal, SIGTERM);
  EXPECT_EQ(ends_, (Ids{"0:0 failed", "0:1 cancelled..."}));
}

TEST_F(StreamRunTest, OnDeadHaltNamesTheRecord) {
  options_.on_dead = OnDead::kHalt;
  records({"a", "b"});
  handler_.does["a"] = {{.outcome = permanent_failure("no")}};
  const jobs::Summary summary = run();
  EXPECT_EQ(summary.ending, Ending::kHalted);
  EXPECT_NE(notices_.find("halted by fake:0:0 (--on-dead halt)"), std::string::npos) << notices_;
}

// Limits of keys have no effect without order by key, and are no error.
TEST_F(StreamRunTest, LimitsNeedNoOrderByKey) {
  for (const Order order : {Order::kPartition, Order::kNone}) {
    options_.order = order;
    options_.limits.groups["a"].limit = 2;
    log_ = {};
    records({"a", "b"});
    EXPECT_EQ(run().ok, 2u);
  }
}

// ---- what is written

TEST_F(StreamRunTest, PrintsStdoutOfWhatIsDoneAndStderrOfAll) {
  options_.retries = 1;
  records({"a", "b"});
  handler_.does["a"] = {{.outcome = retry(), .out = "half\n", .err = "oops\n"}, {.out = "whole\n"}};
  handler_.does["b"] = {{.outcome = permanent_failure("no"), .out = "lost\n", .err = "bad\n"}};
  run();
  EXPECT_EQ(out(), "whole\n");
  EXPECT_EQ(err(), "oops\nbad\n");
}

TEST_F(StreamRunTest, TheJoblogIsWrittenBeforeEachCommit) {
  options_.commit_interval = 1ms;
  records({"a", "b"});
  Offset committed = 0;
  on_commit_ = [&](std::span<const Progress> progress) -> Result<void> {
    committed = progress.front().watermark;
    const std::string text = text_of(log_file());
    EXPECT_GE(std::ranges::count(text, '\n'), committed);
    return {};
  };
  run();
  EXPECT_EQ(committed, 2);
  const std::string text = text_of(log_file());
  EXPECT_NE(text.find("{\"id\":\"0:0\",\"seq\":0,\"key\":\"a\",\"group\":\"a\",\"slot\":1,"
                      "\"attempt\":1,"),
            std::string::npos)
      << text;
}

TEST_F(StreamRunTest, WhatRunsIsNamed) {
  records({"a"});
  std::string text;
  at(500ms, [&](StreamRun& run) { text = run.describe_running(); });
  run();
  EXPECT_EQ(text, "1 running\n  f:1  key a\n  f:2  key b");
}

}  // namespace
}  // namespace keyway::run
