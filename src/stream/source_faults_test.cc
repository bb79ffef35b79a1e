// Sources that break their contract, and runs that end while handlers still run.
#include <atomic>
#include <functional>
#include <latch>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/pipeline.h"
#include "keyway/testing/sim_scheduler.h"
#include "keyway/thread_pool.h"
#include "stream/pipeline_fixture.h"
#include "support/own_process.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

// Gives one record, changed by the test.
struct WrongSource final : FakeSource {
  WrongSource(FakeLog& log, std::function<void(std::vector<Record>&)> change)
      : FakeSource(log), change_(std::move(change)) {}
  Result<Polled> poll(std::vector<Record>& records, std::vector<PartitionEvent>& events,
                      std::size_t most) override {
    Result<Polled> polled = FakeSource::poll(records, events, most);
    change_(records);
    return polled;
  }

 private:
  std::function<void(std::vector<Record>&)> change_;
};

// The error of a run over `source`.
Error error_of_run(Source& source, PipelineOptions options = {}) {
  SimScheduler sim;
  Pipeline pipeline(source, std::move(options), [](const Record&) {}, sim);
  const Result<PipelineEnd> end = pipeline.run_until();
  EXPECT_FALSE(end.ok());
  return end.ok() ? Error{} : end.error();
}

TEST(SourceFaults, ARecordOfAPartitionThatWasNotAssignedEndsTheRun) {
  FakeLog log = numbered(3, 1);
  WrongSource source(log, [](std::vector<Record>& records) {
    for (Record& record : records) record.partition = 7;
  });
  const Error error = error_of_run(source);
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_NE(error.message.find("partition 7 at offset 0"), std::string::npos) << error.message;
  EXPECT_NE(error.message.find("not assigned"), std::string::npos) << error.message;
}

TEST(SourceFaults, ARecordWithoutAnEndEndsTheRun) {
  FakeLog log = numbered(3, 1);
  WrongSource source(log, [](std::vector<Record>& records) {
    for (Record& record : records) record.end = 0;
  });
  const Error error = error_of_run(source);
  EXPECT_NE(error.message.find("`end`"), std::string::npos) << error.message;
}

TEST(SourceFaults, RecordsOutOfOrderEndTheRun) {
  FakeLog log = numbered(3, 1);
  WrongSource source(log, [](std::vector<Record>& records) {
    if (records.size() > 1) std::swap(records.front(), records.back());
  });
  const Error error = error_of_run(source);
  EXPECT_NE(error.message.find("below the end"), std::string::npos) << error.message;
}

TEST(SourceFaults, AnExceptionIsTheErrorOfTheRun) {
  struct ThrowingSource final : FakeSource {
    using FakeSource::FakeSource;
    Result<void> open(std::function<void()> wake) override {
      if (where == "open") throw std::runtime_error("open broke");
      return FakeSource::open(std::move(wake));
    }
    Result<Polled> poll(std::vector<Record>& records, std::vector<PartitionEvent>& events,
                        std::size_t most) override {
      if (where == "poll") throw std::runtime_error("poll broke");
      return FakeSource::poll(records, events, most);
    }
    Result<void> commit(std::span<const Progress> progress) override {
      if (where == "commit") throw std::runtime_error("commit broke");
      return FakeSource::commit(progress);
    }
    void close() override {
      if (where == "close") throw std::runtime_error("close broke");
    }
    void pause(PartitionId id) override {
      if (where == "pause") throw std::runtime_error("pause broke");
      FakeSource::pause(id);
    }
    void resume(PartitionId id) override {
      if (where == "resume") throw std::runtime_error("resume broke");
      FakeSource::resume(id);
    }
    std::optional<Offset> end_of(PartitionId) const override {
      if (where == "end_of") throw std::runtime_error("end_of broke");
      return std::nullopt;
    }
    std::string where;
  };
  for (const char* where : {"open", "poll", "commit", "close", "pause", "resume", "end_of"}) {
    FakeLog log = numbered(30, 30);
    ThrowingSource source(log);
    source.batch = 1;
    source.where = where;
    const Error error = error_of_run(source, {.max_in_flight = 1});
    EXPECT_NE(error.message.find(std::string(where) + " broke"), std::string::npos)
        << error.message;
  }
}

// The error that it would be a part of is told all the same.
TEST(SourceFaults, AnExceptionInsteadOfAPlaceHidesNoError) {
  struct NowhereSource final : FakeSource {
    using FakeSource::FakeSource;
    std::string place_of(const Record&) const override { throw std::runtime_error("nowhere"); }
  };
  FakeLog log = numbered(3, 1);
  NowhereSource source(log);
  PipelineOptions options;
  options.classify = [](Record& record) -> Result<bool> {
    if (number(record) == 2) return Error{ErrorCode::kInvalidArgument, "no key"};
    return true;
  };
  EXPECT_EQ(error_of_run(source, std::move(options)).message, "0:2: no key");
}

// Two records die at once, and the source gives the place of neither before it is asked for both.
TEST(Halt, AsksTheSourceForAPlaceUnderNoLock) {
  struct WaitingSource final : FakeSource {
    using FakeSource::FakeSource;
    std::string place_of(const Record& record) const override {
      asked.arrive_and_wait();
      return FakeSource::place_of(record);
    }
    mutable std::latch asked{2};
  };
  struct NoLetters final : DeadLetters {
    Result<void> store(const DeadLetter&) override { return {}; }
  };
  expect_ends([] {
    FakeLog log = numbered(2, 2);
    WaitingSource source(log);
    std::latch both_run(2);
    Pipeline pipeline(
        source,
        {.concurrency = 2, .dead_letters = std::make_shared<NoLetters>(), .on_dead = OnDead::kHalt},
        [&](const Record&) {
          both_run.arrive_and_wait();
          return permanent_failure("bad");
        });
    const Result<PipelineEnd> end = pipeline.run_until();
    ASSERT_TRUE(end.ok());
    EXPECT_EQ(end->why, PipelineEnd::kHalted);
    EXPECT_FALSE(end->halted_by.empty());
  });
}

// The handler ends after run_until() has returned, and its record comes again in another run.
TEST(LateHandlers, TouchNeitherSourceNorStores) {
  struct CountingSource final : FakeSource {
    using FakeSource::FakeSource;
    std::string id_of(const Record& record) const override {
      if (closed) ++calls_after_close;
      return FakeSource::id_of(record);
    }
    void close() override { closed = true; }
    bool closed = false;
    mutable std::atomic<int> calls_after_close{0};
  };
  for (const bool fails : {false, true}) {
    FakeLog log = numbered(1, 1);
    CountingSource source(log);
    const auto letters = std::make_shared<KeptLetters>();
    std::latch begun(1);
    std::latch may_end(1);
    std::stop_source stop;
    Pipeline pipeline(source,
                      {.retry = {.attempts = 1}, .dead_letters = letters, .shutdown_wait = 1ms},
                      [&](const Record&) {
                        begun.count_down();
                        may_end.wait();
                        return fails ? permanent_failure("late") : done();
                      });
    std::jthread stops([&] {
      begun.wait();
      stop.request_stop();
    });
    EXPECT_TRUE(pipeline.run_until(stop.get_token()).ok());
    EXPECT_EQ(pipeline.stats().in_flight, 1U);
    may_end.count_down();
    while (pipeline.stats().in_flight > 0) std::this_thread::yield();
    EXPECT_EQ(pipeline.stats().dropped, 1U);
    EXPECT_EQ(pipeline.stats().done + pipeline.stats().dead, 0U);
    EXPECT_TRUE(letters->ids.empty());
    EXPECT_EQ(source.calls_after_close, 0);
    EXPECT_EQ(log.committed[0].watermark, 0);
  }
}

// Stop callbacks are the user's code, and the timer thread belongs to every executor of the process.
TEST(AttemptTimeout, CallsStopCallbacksOnAThreadOfTheScheduler) {
  ThreadPool pool({.threads = 2});
  FakeLog log = numbered(1, 1);
  FakeSource source(log);
  const auto letters = std::make_shared<KeptLetters>();
  Scheduler* called_on = nullptr;
  Pipeline pipeline(
      source, {.retry = {.attempts = 1, .attempt_timeout = 5ms}, .dead_letters = letters},
      [&](const Record&) -> Task<void> {
        const std::stop_callback on_stop(co_await current_stop_token(),
                                         [&] { called_on = Scheduler::current(); });
        co_await sleep_for(1h);
      },
      pool);
  EXPECT_TRUE(pipeline.run_until().ok());
  EXPECT_EQ(called_on, &pool);
  ASSERT_EQ(letters->causes.size(), 1U);
  EXPECT_EQ(letters->causes.front(), "it took longer than its timeout");
}

}  // namespace
}  // namespace keyway
