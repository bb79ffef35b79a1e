// The pump sets no timer in the past: it would take one step after the other, and a simulation's time would stand still.
#include <chrono>
#include <memory>
#include <stop_token>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/pipeline.h"
#include "keyway/testing/sim_scheduler.h"
#include "stream/call_after.h"
#include "stream/pipeline_fixture.h"
#include "support/own_process.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

constexpr unsigned kSeconds = 20;  // that a run may take before it counts as a hang

TEST(PumpDeadlines, ASourceMayBeIdleForEver) {
  struct IdleSource final : FakeSource {
    using FakeSource::FakeSource;
    Result<Polled> poll(std::vector<Record>& records, std::vector<PartitionEvent>& events,
                        std::size_t most) override {
      if (++polls == 1000) return Error{ErrorCode::kIo, "polled without end"};
      Result<Polled> polled = FakeSource::poll(records, events, most);
      if (polled->state == Polled::kIdle) polled->idle_for = Duration::max();
      return polled;
    }
    int polls = 0;
  };
  SimScheduler sim;
  FakeLog log = numbered(3, 3);
  IdleSource source(log);
  source.ends = false;
  std::stop_source stop;
  const CallAfter stops(sim, 1min, [&] { stop.request_stop(); });
  Pipeline pipeline(source, {}, [](const Record&) {}, sim);
  EXPECT_TRUE(pipeline.run_until(stop.get_token()).ok());
  EXPECT_EQ(pipeline.stats().done, 3U);
  EXPECT_LT(source.polls, 100);
}

// The pump waits for the store when shutdown_wait is over.
TEST(PumpDeadlines, AStoreMayTakeLongerThanTheShutdown) {
  expect_ends(
      [] {
        SimScheduler sim;
        GroupExecutor disk({}, sim);
        FakeLog log = numbered(1, 1);
        FakeSource source(log);
        std::stop_source stop;
        auto letters = std::make_shared<KeptLetters>();
        letters->before_store = [&](const Record&) {
          stop.request_stop();
          auto written = disk.submit("disk", []() -> Task<void> { co_await sleep_for(5s); });
          EXPECT_TRUE(written.join().ok());
        };
        Pipeline pipeline(
            source, {.dead_letters = letters, .shutdown_wait = 1s},
            [](const Record&) { return permanent_failure("bad"); }, sim);
        const TimePoint began = sim.now();
        EXPECT_TRUE(pipeline.run_until(stop.get_token()).ok());
        EXPECT_EQ(sim.now() - began, 5s);
      },
      kSeconds);
}

TEST(PumpDeadlines, ARunMayEndDuringARevoke) {
  expect_ends(
      [] {
        SimScheduler sim;
        FakeLog log = numbered(2, 2, 2);
        FakeSource source(log);
        source.ends = false;
        std::stop_source stop;
        const CallAfter stops(sim, 2s, [&] { stop.request_stop(); });
        const auto handler = [&](const Record& record) -> Task<void> {
          co_await sleep_for(1s);
          if (record.partition == 0) source.take_away(0, PartitionEvent::kRevoked);
          co_await sleep_for(1min);
        };
        TimePoint ended;
        const TimePoint began = sim.now();
        {
          Pipeline pipeline(source, {.shutdown_wait = 10s}, handler, sim);
          EXPECT_TRUE(pipeline.run_until(stop.get_token()).ok());
          ended = sim.now();
        }
        EXPECT_EQ(ended - began, 12s);
      },
      kSeconds);
}

}  // namespace
}  // namespace keyway
