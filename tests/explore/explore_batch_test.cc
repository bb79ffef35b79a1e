// Pipeline with batches of distinct keys: nothing of a batch outlives the run and the pipeline.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "explore/explorations.h"
#include "explore/explored_scheduler.h"
#include "keyway/pipeline.h"

namespace keyway::explore {
namespace {

using std::chrono::milliseconds;

// Gives two records at once, and `late` ones, each alone, when give() is called.
class RecordsOverTime final : public Source {
 public:
  explicit RecordsOverTime(int late) : late_(late) {}
  std::string name() const override { return "over time"; }
  Result<void> open(std::function<void()> wake) override {
    wake_ = std::move(wake);
    return {};
  }
  Result<Polled> poll(std::vector<Record>& records, std::vector<PartitionEvent>& events,
                      std::size_t) override {
    if (given_ == 0) events.push_back({PartitionEvent::kAssigned, {}});
    for (const int wanted = wanted_.load(); given_ < wanted; ++given_) {
      records.push_back({.offset = given_, .end = given_ + 1, .value = "v"});
    }
    if (given_ == all()) return Polled{Polled::kEnd};
    return Polled{Polled::kIdle, Duration::max()};
  }
  Result<void> commit(std::span<const Progress>) override { return {}; }
  void pause(PartitionId) override {}
  void resume(PartitionId) override {}

  int late() const { return late_; }
  int all() const { return 2 + late_; }
  // By one thread, while the pipeline runs: it does not end before all records are given.
  void give() {
    wanted_.store(wanted_.load() + 1);
    wake_();
  }

 private:
  const int late_;
  int given_ = 0;
  keyway::detail::Atomic<int> wanted_{2};
  std::function<void()> wake_;
};

// Batches of two. The pipeline is destroyed as soon as its run has ended. A call of add_timer() for the second batch takes so
// long that the last record, which ends the run, overtakes it.
class Batches : public Scenario {
 public:
  Batches(int late, Duration linger, bool first_is_tried_twice)
      : source_(late),
        first_is_tried_twice_(first_is_tried_twice),
        slow_deadline_(kBegin + milliseconds(1) + linger) {
    scheduler_.before_add_timer = [this](TimePoint deadline) { before_add_timer(deadline); };
    PipelineOptions options;
    options.order = Order::kNone;
    options.batch = {.most = 2, .linger = linger};
    options.commit_interval = std::chrono::hours(1);
    options.seed = 1;
    pipeline_.emplace(
        source_, options, [this](const Batch& batch) { return handle(batch); }, scheduler_);
  }
  void run(int thread) override {
    if (thread == 1) return give_late();
    if (thread > 1) return scheduler_.work();
    const Result<PipelineEnd> end = pipeline_->run_until();
    pipeline_.reset();
    is_gone_ = true;
    changed();
    scheduler_.stop();
    require(end.ok() && end->why == PipelineEnd::kSourceEnded, "it did not end with its source");
    require(done_ == source_.all(), "a record was lost");
  }
  void check() override { require(scheduler_.timers() == 0, "a timer of a pipeline that is gone"); }

 private:
  static constexpr TimePoint kBegin{std::chrono::hours(1)};  // the explorer's clock

  void before_add_timer(TimePoint deadline) {
    if (deadline != slow_deadline_ || std::exchange(adds_slowly_, true)) return;
    changed();
    wait_until("the end of the run", [this] { return is_gone_; }, now() + milliseconds(5));
  }
  // A record after a millisecond, and the last one when the second batch has begun.
  void give_late() {
    if (source_.late() == 2) {
      wait_until("a millisecond", [] { return false; }, kBegin + milliseconds(1));
      source_.give();
    }
    wait_until("a slow add_timer()", [this] { return adds_slowly_; }, kBegin + milliseconds(10));
    source_.give();
  }
  std::vector<keyway::Outcome> handle(const Batch& batch) {
    std::vector<keyway::Outcome> outcomes;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const bool again =
          first_is_tried_twice_ && batch[i].offset == 0 && batch.attempt(i).number == 1;
      outcomes.push_back(again ? retry("again", milliseconds(1)) : done());
      if (!again) ++done_;
    }
    return outcomes;
  }

  ExploredScheduler scheduler_;
  RecordsOverTime source_;
  const bool first_is_tried_twice_;
  const TimePoint slow_deadline_;
  bool adds_slowly_ = false;
  bool is_gone_ = false;
  int done_ = 0;
  std::optional<Pipeline> pipeline_;
};

// The timer of the first batch fires while the second one becomes full, which ends the run.
struct TimerOfAnEarlierBatch final : Batches {
  TimerOfAnEarlierBatch() : Batches(2, milliseconds(2), false) {}
};
TEST(ExploreBatches, ATimerOfAnEarlierBatchAgainstTheEnd) {
  expect_holds<TimerOfAnEarlierBatch>("Pipeline", {.threads = 4});
}

// The first record joins a second batch, by a resumption, while another record fills it, which ends the run.
struct SecondTry final : Batches {
  SecondTry() : Batches(1, milliseconds(1), true) {}
};
TEST(ExploreBatches, ASecondTryAgainstTheEnd) {
  expect_holds<SecondTry>("Pipeline", {.threads = 4});
}

}  // namespace
}  // namespace keyway::explore
