// Random streams with retries, dead letters, crashes, stores and commits that fail, pauses, rates, halts, and partitions
// that come and go, in random order, under virtual time: no record is lost, none overtakes another of its key, no commit
// passes one that is not done, and nothing begins that must not begin any more.
// A schedule is its seed: see tests/support/schedules.h.
#include <algorithm>
#include <functional>
#include <iostream>
#include <list>
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

class Schedule final : public DeadLetters, public HandledIds {
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
  enum Kind { kRecords, kPlain, kGrouped, kBatches };
  // Calls a function at a time.
  struct Later final : Timer {
    Later(testing::SimScheduler& of, Duration time, std::function<void()> what)
        : sim(of), call(std::move(what)) {
      sim.add_timer(*this, sim.now() + time);
    }
    ~Later() { sim.cancel_timer(*this); }
    void fire() override { call(); }
    testing::SimScheduler& sim;
    std::function<void()> call;
  };
  // How many may have begun since the run began.
  struct Rate {
    std::optional<RateLimit> limit;
    std::map<std::string, int> begun;
  };

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
        log_.partitions[id].push_back({key, std::string(below(kLongestValue + 1), 'x')});
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
    kind_ = static_cast<Kind>(below(4));
    calm_ = calm;
    crashed_ = false;
    halted_ = false;
    all_paused_ = false;
    began_ = sim_.now();
    running_.clear();
    last_.clear();
    members_.clear();
    parked_.clear();
    paused_keys_.clear();
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
    {
      const std::unique_ptr<Pipeline> pipeline = make(draw_options());
      pipeline_ = pipeline.get();
      const Result<PipelineEnd> end = pipeline->run_until(stop.get_token());
      // Five commits in a row may fail by chance.
      const bool away = !end.ok() && end.error().message == "away";
      if (!crashed_) expect(end.ok() || away, "the run failed");
      const bool is_halt = end.ok() && end->why == PipelineEnd::kHalted;
      const bool shall_halt = end.ok() && halted_ && !stop.stop_requested();
      expect(is_halt ? halted_ : !shall_halt, "halted without a reason, or not at all");
      const PipelineStats stats = pipeline->stats();
      expect(stats.in_flight > 0 || stats.in_flight_bytes == 0, "bytes are left in flight");
      running_.clear();
      later_.clear();
    }
    sim_.run_until_idle();
  }

  PipelineOptions draw_options() {
    PipelineOptions options{
        .order = order_ = draw_order(),
        .concurrency = static_cast<int>(1 + below(5)),
        .delivery = one_in(4) ? Delivery::kAtMostOnce : Delivery::kAtLeastOnce,
        .retry = {.attempts = static_cast<int>(1 + below(3)), .first = microseconds(50)},
        .dead_letters = std::shared_ptr<DeadLetters>(this, [](auto*) {}),
        .on_dead = on_dead_ = static_cast<OnDead>(below(3)),
        .max_in_flight = 1 + below(20),
        .max_in_flight_bytes = 1 + below(100),
        .max_in_flight_per_key = static_cast<int>(1 + below(4)),
        .max_window = 1 + below(30),
        .commit_interval = microseconds(1 + below(200)),
        .shutdown_wait = microseconds(below(2) * 1'000'000),
        .rate = draw_rate(),
        .key_rate = order_ == Order::kKey ? draw_rate() : std::nullopt,
        .seed = seed_ + 1,
    };
    options.batch = {.of = one_in(2) ? BatchOptions::kOneKey : BatchOptions::kDistinctKeys,
                     .most = static_cast<int>(1 + below(5)),
                     .linger = microseconds(below(50))};
    batch_of_ = options.batch.of;
    at_most_once_ = options.delivery == Delivery::kAtMostOnce;
    most_bytes_ = options.max_in_flight_bytes + source_->batch * kLongestValue;
    rate_ = {options.rate, {}};
    key_rate_ = {options.key_rate, {}};
    knows_ids_ = one_in(3);
    if (knows_ids_) options.handled_ids = std::shared_ptr<HandledIds>(this, [](auto*) {});
    options.by_group = kind_ == kGrouped;
    options.group_concurrency = static_cast<int>(1 + below(2));
    options.classify = [this](Record& record) -> Result<bool> {
      if (kind_ == kGrouped && record.key) record.group = record.key->substr(0, 1);
      if (!calm_ && one_in(20)) record.defect = "a defect";
      given_.insert({record.partition, record.offset});
      return true;
    };
    return options;
  }
  Order draw_order() {
    if (one_in(5)) return Order::kPartition;
    return one_in(6) ? Order::kNone : Order::kKey;
  }
  std::optional<RateLimit> draw_rate() {
    if (!one_in(5)) return {};
    return RateLimit{.per_second = static_cast<double>(10'000 + below(200'000)),
                     .burst = static_cast<int>(1 + below(3))};
  }

  std::unique_ptr<Pipeline> make(PipelineOptions options) {
    if (kind_ == kBatches) {
      return std::make_unique<Pipeline>(
          *source_, std::move(options), [this](const Batch& batch) { return handle_batch(batch); },
          sim_);
    }
    if (kind_ == kPlain) {
      return std::make_unique<Pipeline>(
          *source_, std::move(options),
          [this](const Record& record, const Attempt& attempt) {
            count_attempt(record, attempt);
            begin(record, attempt);
            return end(record);
          },
          sim_);
    }
    return std::make_unique<Pipeline>(
        *source_, std::move(options),
        [this](const Record& record, const Attempt& attempt) { return handle(record, attempt); },
        sim_);
  }

  Task<Outcome> handle(const Record& record, const Attempt& attempt) {
    count_attempt(record, attempt);
    begin(record, attempt);
    if (one_in(2)) co_await sleep_for(microseconds(below(100)));
    co_return end(record);
  }

  Task<std::vector<Outcome>> handle_batch(const Batch& batch) {
    std::vector<Outcome> outcomes;
    const bool of_one_key = batch_of_ == BatchOptions::kOneKey;
    if (of_one_key) expect_in_order(batch);
    if (of_one_key) count_attempt(batch[0], batch.attempt(0));
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const Record& record = batch[i];
      // Of one key, one after the other, and one that is tried again comes after those that its batch has done; of
      // distinct ones, all at once.
      if (of_one_key) running_.erase(key_of(record));
      if (of_one_key) last_.erase(key_of(record));
      if (!of_one_key) count_attempt(record, batch.attempt(i));
      begin(record, batch.attempt(i));
    }
    if (one_in(2)) co_await sleep_for(microseconds(below(100)));
    if (!calm_ && one_in(10)) {
      for (const Record& record : batch) running_.erase(key_of(record));
      throw std::runtime_error("on purpose");
    }
    for (const Record& record : batch) outcomes.push_back(end(record));
    co_return outcomes;
  }

  void expect_in_order(const Batch& batch) {
    const std::string key = key_of(batch[0]);
    if (key.empty()) return;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      expect(key_of(batch[i]) == key, "a batch of one key has two");
      expect(i == 0 || batch[i - 1].offset < batch[i].offset, "a batch is not in order");
    }
    members_.clear();
    for (const Record& record : batch) members_.insert(record.offset);
  }

  // What comes before it in its key is settled, or in the same batch.
  void expect_none_is_left_before(const Record& record, const std::string& key) {
    const auto& lines = log_.partitions[record.partition];
    for (Offset offset = 0; offset < record.offset; ++offset) {
      if (order_ == Order::kKey && lines[static_cast<std::size_t>(offset)].key != key) continue;
      expect(members_.contains(offset) || settled_.contains({record.partition, offset}),
             text({record.partition, offset}) + " is overtaken");
    }
  }

  // Empty: it is in order with no other.
  std::string key_of(const Record& record) const {
    if (order_ == Order::kNone) return "";
    if (order_ == Order::kPartition) return std::to_string(record.partition);
    return record.key ? std::string(*record.key) : "";
  }

  // Once for a batch of one key.
  void count_attempt(const Record& record, const Attempt& attempt) {
    expect_within(rate_, "", "more attempts than the rate allows");
    const std::string key = key_of(record);
    if (attempt.number == 1 && !key.empty()) {
      expect_within(key_rate_, key, "more records of a key than its rate allows");
    }
  }
  void expect_within(Rate& rate, const std::string& of, const char* wrong) {
    if (!rate.limit) return;
    const std::chrono::duration<double> time = sim_.now() - began_;
    const double most = rate.limit->burst + rate.limit->per_second * time.count();
    expect(++rate.begun[of] <= most + 0.01, wrong);
  }

  void begin(const Record& record, const Attempt& attempt) {
    const Place place{record.partition, record.offset};
    const std::string key = key_of(record);
    say("begins " + text(place));
    expect(!halted_, text(place) + " begins after a halt");
    if (attempt.number == 1) expect_may_begin(record, key);
    if (one_in(8)) {
      expect(pipeline_->stats().in_flight_bytes < most_bytes_, "more bytes than may be in flight");
    }
    if (!key.empty()) {
      expect(running_.insert(key).second, "two of key " + key + " at once");
      const auto last = last_.find(key);
      expect(last == last_.end() || last->second <= record.offset,
             text(place) + " comes after a later one of its key");
      last_[key] = record.offset;
      expect_none_is_left_before(record, key);
      expect(!knows_ids_ || !ids_.contains(source_->unique_id_of(record)),
             text(place) + " is handled although its id was known");
    }
    if (!calm_) disturb(record);
  }

  // For its first attempt.
  void expect_may_begin(const Record& record, const std::string& key) {
    const Place place{record.partition, record.offset};
    expect(!only_once_.contains(place), text(place) + " comes again");
    if (at_most_once_) {
      expect(is_committed(place), text(place) + " is handled before it is committed");
      only_once_.insert(place);
    }
    if (key.empty()) return;
    const auto dead = record.key ? parked_.find(std::string(*record.key)) : parked_.end();
    expect(dead == parked_.end() || record.offset < dead->second,
           text(place) + " is handled although its key is parked");
    // Otherwise its task may have begun before the pause.
    const bool begins_with_task = (kind_ == kRecords || kind_ == kPlain) && !rate_.limit;
    if (!begins_with_task) return;
    expect(!all_paused_, text(place) + " begins while the pipeline is paused");
    expect(order_ != Order::kKey || !paused_keys_.contains(key),
           text(place) + " begins while its key is paused");
  }
  bool is_committed(Place place) const {
    const auto found = log_.committed.find(place.first);
    if (found == log_.committed.end()) return false;
    return place.second < found->second.watermark ||
           keyway::contains(found->second.done_above, place.second);
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

  void disturb(const Record& record) {
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
      source_->take_away(record.partition, lost ? PartitionEvent::kLost : PartitionEvent::kRevoked);
      source_->assign_later(record.partition);
    } else if (one_in(20)) {
      pause(record);
    }
  }

  // For a while.
  void pause(const Record& record) {
    const Duration time = microseconds(below(300));
    if (one_in(3)) {
      say("pauses");
      pipeline_->pause();
      all_paused_ = true;
      later_.emplace_back(sim_, time, [this] {
        all_paused_ = false;
        pipeline_->resume();
      });
    } else if (one_in(3)) {
      say("pauses partition " + std::to_string(record.partition));
      pipeline_->pause_partition(record.partition);
      later_.emplace_back(sim_, time,
                          [this, id = record.partition] { pipeline_->resume_partition(id); });
    } else if (record.key) {
      say("pauses key " + std::string(*record.key));
      const std::string key(*record.key);
      pipeline_->pause_key(key);
      paused_keys_.insert(key);
      later_.emplace_back(sim_, time, [this, key] {
        paused_keys_.erase(key);
        pipeline_->resume_key(key);
      });
    }
  }

  bool fails(std::uint64_t once_in, const char* what) {
    const bool now = !calm_ && one_in(once_in);
    if (now) say(std::string(what) + " fails");
    return now;
  }

  Result<void> store(const DeadLetter& letter) override {
    const Record& record = *letter.record;
    const Place place{record.partition, record.offset};
    if (fails(10, "a letter")) return Error{ErrorCode::kIo, "away"};
    say("dead " + text(place));
    expect(!halted_ || letter.attempts > 0, text(place) + " is dead untried after a halt");
    settled_.insert(place);
    if (on_dead_ == OnDead::kHalt) halted_ = true;
    if (on_dead_ == OnDead::kPark && record.key) parked_.emplace(*record.key, record.offset);
    return {};
  }

  Result<bool> contains(std::string_view id) override {
    if (fails(60, "a look for an id")) return Error{ErrorCode::kIo, "away"};
    return ids_.contains(id);
  }
  Result<void> add(std::string_view id) override {
    if (fails(60, "an id")) return Error{ErrorCode::kIo, "away"};
    ids_.emplace(id);
    return {};
  }

  Result<void> commit(std::span<const Progress> progress) {
    if (crashed_) return Error{ErrorCode::kIo, "it has crashed"};
    if (fails(10, "a commit")) return Error{ErrorCode::kIo, "away", /*retryable=*/true};
    for (const Progress& one : progress) {
      const auto lines = static_cast<Offset>(log_.partitions[one.partition].size());
      const Offset watermark = one.watermark + (commits_too_much_ ? 1 : 0);
      for (Offset offset = 0; offset < lines; ++offset) {
        const bool says_done = offset < watermark || keyway::contains(one.done_above, offset);
        if (!says_done) continue;
        const Place place{one.partition, offset};
        // At most once: what was read counts as done, and does not come again.
        if (at_most_once_ && given_.contains(place)) settled_.insert(place);
        expect(settled_.contains(place), "a commit passes " + text(place) + ", which is not done");
      }
    }
    return {};
  }

  static constexpr std::size_t kLongestValue = 9;

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
  bool at_most_once_ = false;
  bool knows_ids_ = false;
  OnDead on_dead_ = OnDead::kContinue;
  std::uint64_t most_bytes_ = 0;
  Rate rate_;
  Rate key_rate_;
  // Of all runs.
  std::set<Place> given_;      // by the source
  std::set<Place> settled_;    // done, or dead
  std::set<Place> only_once_;  // begun in a run that handles at most once
  std::set<std::string, std::less<>> ids_;
  // Of this run.
  Pipeline* pipeline_ = nullptr;
  TimePoint began_{};
  bool crashed_ = false;
  bool halted_ = false;
  bool all_paused_ = false;
  std::set<std::string> paused_keys_;
  std::map<std::string, Offset> parked_;  // since which record of the key was dead
  std::list<Later> later_;
  std::set<std::string> running_;
  std::map<std::string, Offset> last_;
  std::set<Offset> members_;  // of the batch of one key that begins
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
