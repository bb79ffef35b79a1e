// The pump sets no timer in the past: it would take one step after the other, and a simulation's time would stand still.
#include <chrono>
#include <stop_token>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/pipeline.h"
#include "keyway/testing/sim_scheduler.h"
#include "stream/call_after.h"
#include "stream/pipeline_fixture.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

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

}  // namespace
}  // namespace keyway
