// Pipeline, whole, through its public headers: a record begins as soon as its key has room, not with the next timer.
#include <array>
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
  Result<void> open(std::function<void()>) override { return {}; }
  Result<Polled> poll(std::vector<Record>& records, std::vector<PartitionEvent>& events,
                      std::size_t) override {
    yield();
    if (!assigned_) {
      assigned_ = true;
      events.push_back({PartitionEvent::kAssigned, {}});
      return Polled{Polled::kMore};
    }
    for (; given_ < count_; ++given_) {
      records.push_back({.offset = given_, .end = given_ + 1, .key = "k", .value = "v"});
    }
    return Polled{Polled::kEnd};
  }
  Result<void> commit(std::span<const Progress> progress) override {
    for (const Progress& one : progress) committed_ = one.watermark;
    return {};
  }
  void pause(PartitionId) override {}
  void resume(PartitionId) override {}
  Offset committed() const { return committed_; }

 private:
  const int count_;
  int given_ = 0;
  bool assigned_ = false;
  Offset committed_ = 0;
};

template <int kPerKey, bool kResumes = false>
class RecordsOfOneKey final : public Scenario {
 public:
  RecordsOfOneKey() {
    if (kResumes) pipeline_->pause_key("k");
  }
  void run(int thread) override {
    if (kResumes && thread == 2) return pipeline_->resume_key("k");
    if (thread > 0) return scheduler_.work();
    const Result<PipelineEnd> end = pipeline_->run_until();
    require(end.ok() && end->why == PipelineEnd::kSourceEnded, "it did not end with its source");
    require(handled_ == kRecords, "a record was lost");
    require(source_.committed() == kRecords, "not all was committed");
    scheduler_.stop();
  }

 private:
  static constexpr int kRecords = 3;
  static PipelineOptions options() {
    PipelineOptions options;
    options.concurrency = 2;
    options.max_in_flight_per_key = kPerKey;
    options.seed = 1;
    return options;
  }
  keyway::Outcome handle(const Record& record) {
    require(record.offset == handled_, "not in order");
    require(scheduler_.now() == TimePoint(std::chrono::hours(1)),
            "a record waited for a timer, although its key had room");
    yield();
    ++handled_;
    return done();
  }

  ExploredScheduler scheduler_;
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
  expect_holds<RecordsOfOneKey<0, true>>("Pipeline", {.threads = 3});
}

}  // namespace
}  // namespace keyway::explore
