// An outcome, or an exception, without a reason.
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/pipeline.h"
#include "keyway/testing/sim_scheduler.h"
#include "stream/pipeline_fixture.h"

namespace keyway {
namespace {

using testing::SimScheduler;

Outcome without_reason(const Record& record) {
  switch (number(record)) {
    case 0:
      return retry();
    case 1:
      return permanent_failure("");
    case 2:
      throw std::runtime_error("");
    default:
      throw PermanentError("");
  }
}

TEST(DefaultReason, IsTheCauseOfDeadLetters) {
  SimScheduler sim;
  FakeLog log = numbered(4, 1);
  FakeSource source(log);
  auto letters = std::make_shared<KeptLetters>();
  Pipeline pipeline(source, {.retry = {.attempts = 2}, .dead_letters = letters}, without_reason,
                    sim);
  ASSERT_TRUE(pipeline.run_until().ok());
  EXPECT_EQ(letters->causes, (std::vector<std::string>{
                                 "the handler asked for a retry", "the handler gave up on it",
                                 "the handler asked for a retry", "the handler gave up on it"}));
}

TEST(DefaultReason, IsInTheErrorWithoutDeadLetters) {
  SimScheduler sim;
  FakeLog log = numbered(1, 1);
  FakeSource source(log);
  Pipeline pipeline(source, {.retry = {.attempts = 1}}, without_reason, sim);
  const Result<PipelineEnd> end = pipeline.run_until();
  ASSERT_FALSE(end.ok());
  EXPECT_EQ(end.error().message,
            "fake:0:0: the handler asked for a retry, and there is nowhere to put dead letters");
}

}  // namespace
}  // namespace keyway
