// Random streams with retries, dead letters, crashes, failing commits and partitions that come and go, in random order,
// under virtual time: no record is lost, none overtakes another of its key, and no commit passes one that is not done.
// A schedule is its seed: see tests/support/schedules.h.
#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/pipeline.h"
#include "keyway/testing/sim_scheduler.h"
#include "stream/fake_source.h"
#include "support/schedules.h"

namespace keyway {
namespace {

using std::chrono::microseconds;

class Schedule final : public DeadLetters {
 public:
  // `commits_too_much`: a bug on purpose; a commit says one more is done than is.
  Schedule(std::uint64_t seed, bool commits_too_much)
      : sim_(seed), seed_(seed), commits_too_much_(commits_too_much) {}

  std::string run() {
    fill();
    // Until all is done, however often it crashes; the last runs come to an end.
    for (int run = 0; run < 8 && wrong_.empty() && !all_done(); ++run) run_once(/*calm=*/run >= 6);
    expect(all_done(), "not all records are done in the end");
    return wrong_.empty() ? "" : "seed " + std::to_string(seed_) + ": " + wrong_;
  }

 private:
  using Place = std::pair<PartitionId, Offset>;
  enum Kind { kRecords, kGrouped, kBatches };

  std::uint64_t below(std::uint64_t bound) { return sim_.random_below(bound); }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  void expect(bool holds, const std::string& what) {
    if (!holds && wrong_.empty()) wrong_ = what;
  }
  void say(const std::string& what) const {
    if (replays_a_seed()) std::cerr << what << '\n';
  }
  static std::string text(Place place) {
    return std::to_string(place.first) + ":" + std::to_string(place.second);
  }

  void fill() {
    const auto partitions = static_cast<PartitionId>(1 + below(3));
    for (PartitionId id = 0; id < partitions; ++id) {
      for (std::uint64_t i = below(30); i > 0; --i) {
        std::optional<std::string> key;
        // A key belongs to one partition, as with any broker.
        if (!one_in(8)) key = std::to_string(id) + "-" + std::to_string(below(4));
        log_.partitions[id].push_back({key, "value"});
      }
      log_.partitions[id];
    }
  }

  bool all_done() const {
    for (const auto& [id, lines] : log_.partitions) {
      const auto committed = log_.committed.find(id);
      const Offset watermark = committed == log_.committed.end() ? 0 : committed->second.watermark;
      if (watermark < static_cast<Offset>(lines.size())) return false;
    }
    return true;
  }

  void run_once(bool calm) {
    say("a run begins");
    kind_ = static_cast<Kind>(below(3));
    calm_ = calm;
    crashed_ = false;
    running_.clear();
    last_.clear();
    FakeSource source(log_);
    source.batch = 1 + below(20);
    source.on_commit = [&](std::span<const Progress> progress) { return commit(progress); };
    source.on_assigned = [&](PartitionId partition) {  // it begins again where it was committed
      const std::string id = std::to_string(partition);
      std::erase_if(last_, [&](const auto& one) { return one.first.starts_with(id); });
    };
    source_ = &source;
    std::stop_source stop;
    stop_ = &stop;
    PipelineOptions options{
        .order = order_ = one_in(5) ? Order::kPartition : Order::kKey,
        .concurrency = static_cast<int>(1 + below(5)),
        .retry = {.attempts = static_cast<int>(1 + below(3)), .first = microseconds(50)},
        .dead_letters = std::shared_ptr<DeadLetters>(this, [](auto*) {}),
        .max_in_flight = 1 + below(20),
        .max_in_flight_per_key = static_cast<int>(1 + below(4)),
        .max_window = 1 + below(30),
        .commit_interval = microseconds(1 + below(200)),
        .shutdown_wait = microseconds(below(2) * 1'000'000),
        .seed = seed_ + 1,
    };
    options.batch = {.of = one_in(2) ? BatchOptions::kOneKey : BatchOptions::kDistinctKeys,
                     .most = static_cast<int>(1 + below(5)),
                     .linger = microseconds(below(50))};
    batch_of_ = options.batch.of;
    options.by_group = kind_ == kGrouped;
    options.group_concurrency = static_cast<int>(1 + below(2));
    options.classify = [this](Record& record) -> Result<bool> {
      if (kind_ == kGrouped && record.key) record.group = record.key->substr(0, 1);
      return true;
    };
    {
      const std::unique_ptr<Pipeline> pipeline = make(std::move(options));
      const Result<PipelineEnd> end = pipeline->run_until(stop.get_token());
      // Five commits in a row may fail by chance.
      const bool away = !end.ok() && end.error().message == "away";
      if (!crashed_) expect(end.ok() || away, "the run failed");
      running_.clear();
    }
    sim_.run_until_idle();
  }

  std::unique_ptr<Pipeline> make(PipelineOptions options) {
    if (kind_ == kBatches) {
      return std::make_unique<Pipeline>(
          *source_, std::move(options), [this](const Batch& batch) { return handle_batch(batch); },
          sim_);
    }
    return std::make_unique<Pipeline>(
        *source_, std::move(options),
        [this](const Record& record, const Attempt&) { return handle(record); }, sim_);
  }

  Task<Outcome> handle(const Record& record) {
    begin(record);
    if (one_in(2)) co_await sleep_for(microseconds(below(100)));
    co_return end(record);
  }

  Task<std::vector<Outcome>> handle_batch(const Batch& batch) {
    std::vector<Outcome> outcomes;
    const bool of_one_key = batch_of_ == BatchOptions::kOneKey;
    if (of_one_key) expect_none_is_left_before(batch);
    for (const Record& record : batch) {
      // Of one key, one after the other, and one that is tried again comes after those that its batch has done; of
      // distinct ones, all at once.
      if (of_one_key) running_.erase(key_of(record));
      if (of_one_key) last_.erase(key_of(record));
      begin(record);
    }
    if (one_in(2)) co_await sleep_for(microseconds(below(100)));
    if (one_in(10)) {
      for (const Record& record : batch) running_.erase(key_of(record));
      throw std::runtime_error("on purpose");
    }
    for (const Record& record : batch) outcomes.push_back(end(record));
    co_return outcomes;
  }

  // What comes before the first record of a batch is done; among the others, none is missing.
  void expect_none_is_left_before(const Batch& batch) {
    const std::string key = key_of(batch[0]);
    if (key.empty()) return;
    std::set<Offset> members;
    for (const Record& record : batch) {
      expect(key_of(record) == key, "a batch of one key has two");
      expect(members.empty() || *members.rbegin() < record.offset, "a batch is not in order");
      members.insert(record.offset);
    }
    const PartitionId partition = batch[0].partition;
    const auto& lines = log_.partitions[partition];
    for (Offset offset = 0; offset < *members.rbegin(); ++offset) {
      const auto& line = lines[static_cast<std::size_t>(offset)];
      if (order_ == Order::kKey && line.key != key) continue;
      expect(members.contains(offset) || settled_.contains({partition, offset}),
             text({partition, offset}) + " is overtaken");
    }
  }

  std::string key_of(const Record& record) const {
    if (order_ == Order::kPartition) return std::to_string(record.partition);
    return record.key ? std::string(*record.key) : "";
  }

  void begin(const Record& record) {
    const Place place{record.partition, record.offset};
    const std::string key = key_of(record);
    say("begins " + text(place));
    if (!key.empty()) {
      expect(running_.insert(key).second, "two of key " + key + " at once");
      const auto last = last_.find(key);
      expect(last == last_.end() || last->second <= record.offset,
             text(place) + " comes after a later one of its key");
      last_[key] = record.offset;
    }
    if (!calm_) disturb(record.partition);
  }

  Outcome end(const Record& record) {
    const Place place{record.partition, record.offset};
    running_.erase(key_of(record));
    switch (calm_ ? 0 : below(8)) {
      case 1:
        return retry("later");
      case 2:
        return permanent_failure("never");
      case 3:
        if (kind_ != kBatches) throw std::runtime_error("on purpose");
        return retry("later");
      default:
        say("done " + text(place));
        settled_.insert(place);
        return done();
    }
  }

  void disturb(PartitionId partition) {
    if (one_in(60)) {
      say("crash");
      crashed_ = true;
      stop_->request_stop();
    } else if (one_in(60)) {
      say("stop");
      stop_->request_stop();
    } else if (one_in(40)) {
      const bool lost = one_in(2);
      say(lost ? "lost" : "revoked");
      source_->take_away(partition, lost ? PartitionEvent::kLost : PartitionEvent::kRevoked);
      source_->assign_later(partition);
    }
  }

  Result<void> store(const DeadLetter& letter) override {
    say("dead " + text({letter.record->partition, letter.record->offset}));
    settled_.insert({letter.record->partition, letter.record->offset});
    return {};
  }

  Result<void> commit(std::span<const Progress> progress) {
    if (crashed_) return Error{ErrorCode::kIo, "it has crashed"};
    if (!calm_ && one_in(10)) return Error{ErrorCode::kIo, "away", /*retryable=*/true};
    for (const Progress& one : progress) {
      const auto lines = static_cast<Offset>(log_.partitions[one.partition].size());
      const Offset watermark = one.watermark + (commits_too_much_ ? 1 : 0);
      for (Offset offset = 0; offset < lines; ++offset) {
        const bool says_done = offset < watermark || contains(one.done_above, offset);
        expect(!says_done || settled_.contains({one.partition, offset}),
               "a commit passes " + text({one.partition, offset}) + ", which is not done");
      }
    }
    return {};
  }

  testing::SimScheduler sim_;
  const std::uint64_t seed_;
  const bool commits_too_much_;
  std::string wrong_;
  FakeLog log_;
  FakeSource* source_ = nullptr;
  std::stop_source* stop_ = nullptr;
  Order order_ = Order::kKey;
  Kind kind_ = kRecords;
  BatchOptions::Kind batch_of_ = BatchOptions::kOneKey;
  bool calm_ = false;
  bool crashed_ = false;
  std::set<Place> settled_;
  std::set<std::string> running_;
  std::map<std::string, Offset> last_;
};

class PipelineSchedules : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(PipelineSchedules, KeepWhatMustAlwaysBeTrue) {
  expect_schedules_hold<Schedule>(GetParam(), 25'000);
}
INSTANTIATE_TEST_SUITE_P(Part, PipelineSchedules, ::testing::Values(0, 1, 2, 3));

TEST(PipelineSchedulesWithAPlantedBug, FindACommitThatSaysTooMuch) {
  expect_planted_bug_is_found<Schedule>("a commit passes");
}

}  // namespace
}  // namespace keyway
