// A pipeline that halts at its first dead letter.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/pipeline.h"
#include "keyway/testing/sim_scheduler.h"
#include "stream/pipeline_fixture.h"

namespace keyway {
namespace {

using testing::SimScheduler;

// The simulation runs one thread, so when a letter is stored, the pipeline has halted before any other record begins.
class HaltedRun {
 public:
  explicit HaltedRun(std::uint64_t seed) : sim_(seed) {
    letters_->before_store = [this](const Record& record) { expect_not_halted(record); };
  }

  template <class Handler>
  void run(PipelineOptions options, Handler handler) {
    options.concurrency = 2;
    options.dead_letters = letters_;
    options.on_dead = OnDead::kHalt;
    Pipeline pipeline(source_, std::move(options), std::move(handler), sim_);
    const Result<PipelineEnd> end = pipeline.run_until();
    ASSERT_TRUE(end.ok());
    EXPECT_EQ(end->why, PipelineEnd::kHalted);
    EXPECT_EQ(end->halted_by, "fake:0:" + std::to_string(letters_->offsets.at(0)));
  }
  Outcome handle(const Record& record) {
    expect_not_halted(record);
    return number(record) == 4 ? permanent_failure("bad") : done();
  }

 private:
  void expect_not_halted(const Record& record) {
    EXPECT_TRUE(letters_->ids.empty()) << "after the halt: " << record.offset;
  }

  SimScheduler sim_;
  FakeLog log_ = numbered(12, 12);
  FakeSource source_{log_};
  std::shared_ptr<KeptLetters> letters_ = std::make_shared<KeptLetters>();
};

constexpr std::uint64_t kSeeds = 100;

TEST(Halt, NoRecordBeginsAfterIt) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    HaltedRun plain(seed);
    plain.run({}, [&](const Record& record) { return plain.handle(record); });
    HaltedRun coroutine(seed);
    coroutine.run(
        {}, [&](const Record& record) -> Task<Outcome> { co_return coroutine.handle(record); });
  }
}

TEST(Halt, NoRecordThatWaitsForItsGroupBeginsAfterIt) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    HaltedRun run(seed);
    PipelineOptions options{.by_group = true};
    options.classify = [](Record& record) -> Result<bool> {
      record.group = number(record) % 2 == 0 ? "even" : "odd";
      return true;
    };
    run.run(std::move(options), [&](const Record& record) { return run.handle(record); });
  }
}

TEST(Halt, NoBatchBeginsAfterIt) {
  for (const auto of : {BatchOptions::kOneKey, BatchOptions::kDistinctKeys}) {
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
      HaltedRun run(seed);
      run.run({.batch = {.of = of, .most = 2}}, [&](const Batch& batch) {
        std::vector<Outcome> outcomes;
        for (const Record& record : batch) outcomes.push_back(run.handle(record));
        return outcomes;
      });
    }
  }
}

TEST(Halt, NoOtherDefectBecomesALetterAfterIt) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    HaltedRun run(seed);
    PipelineOptions options;
    options.classify = [](Record& record) -> Result<bool> {
      if (number(record) % 3 == 2) record.defect = "not JSON";
      return true;
    };
    run.run(std::move(options), [](const Record&) {});
  }
}

}  // namespace
}  // namespace keyway
