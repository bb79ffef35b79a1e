// Pipeline, whole, through its public headers: a record begins as soon as its key has room, not with the next timer.
#include <array>
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

// A few records of one key, all at once.
class FewRecords final : public Source {
 public:
  explicit FewRecords(int count) : count_(count) {}
  std::string name() const override { return "few"; }
  Result<void> open(std::function<void()> wake) override {
    wake_ = std::move(wake);
    is_open_.store(true);
    return {};
  }
  Result<Polled> poll(std::vector<Record>& records, std::vector<PartitionEvent>& events,
                      std::size_t) override {
    yield();
    if (!assigned_) {
      assigned_ = true;
      events.push_back({PartitionEvent::kAssigned, {}});
      return Polled{Polled::kMore};
    }
    if (given_ == count_ && fails_.load()) return Error{ErrorCode::kIo, "the source fails"};
    for (; given_ < count_; ++given_) {
      records.push_back({.offset = given_, .end = given_ + 1, .key = "k", .value = "v"});
    }
    if (ends_) return Polled{Polled::kEnd};
    if (fails_.load()) return Polled{Polled::kMore};
    return Polled{Polled::kIdle, std::chrono::hours(1)};
  }
  Result<void> commit(std::span<const Progress> progress) override {
    for (const Progress& one : progress) committed_ = one.watermark;
    return {};
  }
  void pause(PartitionId) override {}
  void resume(PartitionId) override {}
  Offset committed() const { return committed_; }
  // From now on the source does not end, but fails after fail(), when it has given its records.
  void stay_open() { ends_ = false; }
  void fail() {
    fails_.store(true);
    if (is_open_.load()) wake_();
  }

 private:
  const int count_;
  int given_ = 0;
  bool assigned_ = false;
  bool ends_ = true;
  keyway::detail::Atomic<bool> fails_{false};
  keyway::detail::Atomic<bool> is_open_{false};
  std::function<void()> wake_;
  Offset committed_ = 0;
};

enum class Pauses {
  kNone,
  kOneEnds,
  kOneBeginsAndEnds,         // at once, while the pipeline runs
  kOneBeginsAndEndsEarlier,  // at once, before the pipeline runs
};
template <int kPerKey, Pauses kPauses = Pauses::kNone>
class RecordsOfOneKey final : public Scenario {
 public:
  RecordsOfOneKey() {
    if (kPauses == Pauses::kOneEnds) pipeline_->pause_key("k");
    if (kSourceFails) source_.stay_open();
  }
  void run(int thread) override {
    if (kPauses == Pauses::kOneBeginsAndEndsEarlier && thread == 0) {
      pause();
      wait_until("the other call", [this] { return calls_returned_ == 2; });
    }
    if (kPauses != Pauses::kNone && thread == 2) return resume();
    if (kPauses == Pauses::kOneBeginsAndEnds && thread == 3) return pause();
    if (thread > 0) return scheduler_.work();
    const Result<PipelineEnd> end = pipeline_->run_until();
    scheduler_.stop();
    if (kSourceFails) {
      require(!end.ok(), "the source did not fail");
      return require(scheduler_.now() == kBegin, "a key stayed paused while the run ended");
    }
    require(end.ok() && end->why == PipelineEnd::kSourceEnded, "it did not end with its source");
    require(handled_ == kRecords, "a record was lost");
    require(source_.committed() == kRecords, "not all was committed");
  }

 private:
  static constexpr int kRecords = 3;
  static constexpr bool kSourceFails =
      kPauses == Pauses::kOneBeginsAndEnds || kPauses == Pauses::kOneBeginsAndEndsEarlier;
  static constexpr TimePoint kBegin{std::chrono::hours(1)};  // the explorer's clock
  static PipelineOptions options() {
    PipelineOptions options;
    options.concurrency = 2;
    options.max_in_flight_per_key = kPerKey;
    options.seed = 1;
    return options;
  }
  void resume() {
    pipeline_->resume_key("k");
    if (kSourceFails) call_returned();
  }
  void pause() {
    pipeline_->pause_key("k");
    call_returned();
  }
  // After both calls the key may be paused. The run must end all the same when its source fails, and not only after
  // shutdown_wait.
  void call_returned() {
    if (++calls_returned_ == 2) source_.fail();
    changed();
  }
  keyway::Outcome handle(const Record& record) {
    require(record.offset == handled_, "not in order");
    require(scheduler_.now() == kBegin, "a record waited for a timer, although its key had room");
    yield();
    ++handled_;
    return done();
  }

  ExploredScheduler scheduler_;
  int calls_returned_ = 0;
  FewRecords source_{kRecords};
  int handled_ = 0;
  std::optional<Pipeline> pipeline_{std::in_place, source_, options(),
                                    [this](const Record& record) { return handle(record); },
                                    scheduler_};
};
TEST(ExplorePipeline, RecordsOfOneKeyInLine) {
  expect_holds<RecordsOfOneKey<10>>("Pipeline", {.threads = 3});
}
TEST(ExplorePipeline, RecordsOfOneKeySetAside) {
  expect_holds<RecordsOfOneKey<1>>("Pipeline", {.threads = 3});
}
TEST(ExplorePipeline, RecordsOfOneKeyWithNoneInLine) {
  expect_holds<RecordsOfOneKey<0>>("Pipeline", {.threads = 3});
}
TEST(ExplorePipeline, RecordsOfAKeyThatIsResumed) {
  expect_holds<RecordsOfOneKey<0, Pauses::kOneEnds>>("Pipeline", {.threads = 3});
}
TEST(ExplorePipeline, RecordsOfAKeyThatIsPausedAndResumedAtOnce) {
  expect_holds<RecordsOfOneKey<10, Pauses::kOneBeginsAndEnds>>("Pipeline", {.threads = 4});
}
TEST(ExplorePipeline, RecordsOfAKeyThatWasPausedAndResumedAtOnce) {
  expect_holds<RecordsOfOneKey<10, Pauses::kOneBeginsAndEndsEarlier>>("Pipeline", {.threads = 3});
}

}  // namespace
}  // namespace keyway::explore
