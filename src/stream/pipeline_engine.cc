// The pump: reading, dispatching, committing. For one record see pipeline_record.cc, for the run as a whole
// pipeline_run.cc.
#include "stream/pipeline_engine.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/hash_key.h"
#include "stream/pipeline_batch.h"

namespace keyway {

namespace {

constexpr std::size_t kRecordsPerPoll = 256;
constexpr int kPollsPerStep = 4;
constexpr std::size_t kLongestKey = 4096;
constexpr int kMostCommitFailures = 5;
// The highest rate that a policy may have.
constexpr RateLimit kNoRate{.per_second = 9e9, .burst = kUnlimited};

// Who was full has room again when a fourth is free: not to go to and fro with every record.
constexpr std::uint64_t low(std::uint64_t high) { return high - high / 4; }

// Whatever a key is, its group is none of those that are no key's, and has a name of bounded length. Two long keys may share
// a group, and are in order with each other then too.
std::string group_of_key(std::string_view key) {
  if (key.size() > kLongestKey) {
    return "\x01hash " + std::to_string(hash_key(key)) + std::string(key.substr(0, 64));
  }
  const bool is_plain = !key.empty() && key.front() != kNoText;
  return is_plain ? std::string(key) : "\x01key " + std::string(key);
}

decltype(GroupPolicy::groups) limits_by_group(const PipelineOptions& options,
                                              std::optional<int> queue_threshold) {
  decltype(GroupPolicy::groups) by_group;
  for (const auto& [key, limits] : options.limits) {
    GroupLimits& of_group = by_group[group_of_key(key)] = limits;
    of_group.queue_threshold = queue_threshold;
  }
  return by_group;
}

// Keys: who is next.
GroupPolicy key_policy(const PipelineOptions& options, bool has_two_levels) {
  GroupPolicy policy;
  policy.oldest_first = true;
  if (!has_two_levels) policy.global_max_in_flight = options.concurrency;
  if (!options.by_group) policy.groups = limits_by_group(options, {});
  policy.default_group = {.max_concurrency = options.key_concurrency,
                          .queue_threshold = options.max_in_flight_per_key,
                          .rate = options.key_rate};
  policy.groups[std::string(kUnorderedGroup)] = {
      .max_concurrency = has_two_levels ? kUnlimited : options.concurrency,
      .queue_threshold = kUnlimited};
  // Records without a key have none of key_rate: without this, their group would have the default one.
  if (options.key_rate) policy.groups[std::string(kUnorderedGroup)].rate = kNoRate;
  return policy;
}

// Groups: whose turn in its key is also one in its group. Nobody is turned away here.
GroupPolicy call_policy(const PipelineOptions& options) {
  GroupPolicy policy;
  policy.oldest_first = true;
  policy.global_max_in_flight = options.concurrency;
  if (options.by_group) policy.groups = limits_by_group(options, kUnlimited);
  policy.default_group = {.max_concurrency = options.group_concurrency};
  policy.groups[std::string(kUnorderedGroup)] = {.max_concurrency = options.concurrency};
  return policy;
}

PipelineOptions checked(PipelineOptions options) {
  if (const Result<void> valid = options.validate(); !valid) throw Exception(valid.error());
  return options;
}

}  // namespace

Pipeline::Engine::Engine(Source& source, PipelineOptions options, detail::AnyHandler handler,
                         Scheduler& scheduler)
    : Pump(scheduler),
      source_(source),
      options_(checked(std::move(options))),
      handler_(std::move(handler)),
      scheduler_(scheduler),
      handling_(scheduler.is_driven() ? &scheduler : nullptr),
      random_(options_.seed != 0 ? options_.seed : std::random_device()()) {
  if (options_.by_group && handler_.batch) {
    throw Exception({ErrorCode::kInvalidArgument,
                     "by_group is set, and the handler takes a Batch; a pipeline has limits of "
                     "groups or batches, not both"});
  }
  if (options_.rate) {
    MutexLock lock(rate_mutex_);
    rate_.emplace(TokenBucket::Options{.per_second = options_.rate->per_second,
                                       .burst = static_cast<double>(options_.rate->burst)});
  }
  if (has_two_levels()) calls_.emplace(call_policy(options_), scheduler);
  if (takes_distinct_keys()) batch_line_ = std::make_unique<BatchLine>(*this);
  if (takes_one_key()) backlog_ = std::make_unique<KeyBacklog>();
  executor_.emplace(key_policy(options_, has_two_levels()), scheduler);
}

Pipeline::Engine::~Engine() {
  KEYWAY_CHECK(
      !runs_.load(std::memory_order_acquire),
      "a Pipeline is destroyed while run_until() runs; request stop, and let it return first");
  // Running tasks, and queued records that the executors drop, call wake(), which does nothing after the run.
  executor_.reset();
  calls_.reset();
  backlog_.reset();
}

TimePoint Pipeline::Engine::from_now(Duration duration) const {
  return time_after(scheduler_.now(), duration);
}

// ---- one step

bool Pipeline::Engine::step() {
  next_poll_ = TimePoint::max();
  commit_if_due();
  begin_end_if_due();
  bool more = false;
  for (int i = 0; i < kPollsPerStep && !ending_; ++i) {
    more = read();
    if (!more) break;
  }
  if (scheduler_.now() >= next_show_) show();
  if (more) {
    wake();
    return true;
  }
  if (!ending_ && source_ended_ && in_flight_ == 0 && held_.empty() && aside_.empty()) {
    begin_end(PipelineEnd::kSourceEnded);
  }
  if (ending_ && end_if_quiet()) return false;
  // A record that left since this step began has called wake(), so another step follows this one.
  wait_until(next_look());
  return true;
}

// Not a deadline that has passed and that no step acts on: the pump would take one step after the other.
TimePoint Pipeline::Engine::next_look() const {
  TimePoint next = std::min(next_commit_, next_poll_);
  if (ending_ && !closed_) next = std::min(next, end_by_);
  if (ending_) return next;  // the last commit is that of revoked partitions, too
  return revoked_.empty() ? next : std::min(next, revoked_until_);
}

void Pipeline::Engine::wait_until(TimePoint time) {
  scheduler_.cancel_timer(*this);
  if (time != TimePoint::max()) scheduler_.add_timer(*this, time);
}

// ---- reading

// True if there may be more at once.
bool Pipeline::Engine::read() {
  bool moved = dispatch_aside();
  moved = dispatch_held() || moved;
  balance();
  const bool bytes_free =
      bytes_ < (bytes_full_ ? low(options_.max_in_flight_bytes) : options_.max_in_flight_bytes);
  bytes_full_ = !bytes_free;
  if (is_revoking() || source_ended_ || bytes_full_ || awaits_commit_) return moved;
  records_.clear();
  events_.clear();
  const Result<Polled> polled = poll_safely();
  if (!polled) {
    fail(polled.error());
    return false;
  }
  take_in(events_);
  take_in(records_);
  source_ended_ = polled->state == Polled::kEnd;
  if (polled->state == Polled::kIdle) next_poll_ = from_now(polled->idle_for);
  return polled->state == Polled::kMore || !revoked_.empty();
}

// Both return an exception as an error.
Result<Polled> Pipeline::Engine::poll_safely() {
  try {
    return source_.poll(records_, events_, kRecordsPerPoll);
  } catch (...) {
    return error_of(std::current_exception());
  }
}

Result<void> Pipeline::Engine::commit_safely(std::span<const Progress> progress) {
  try {
    return source_.commit(progress);
  } catch (...) {
    return error_of(std::current_exception());
  }
}

void Pipeline::Engine::take_in(std::vector<PartitionEvent>& events) {
  if (events.empty()) return;
  Partitions given_up;
  for (PartitionEvent& event : events) take_in(event, given_up);
  if (given_up.empty()) return;
  drop_unposted(given_up);
  if (batch_line_ != nullptr) batch_line_->let_dropped_go();
}

void Pipeline::Engine::take_in(PartitionEvent& event, Partitions& given_up) {
  const PartitionId id = event.progress.partition;
  const auto found = partitions_.find(id);
  if (found != partitions_.end()) {
    found->second->give_up();
    given_up.insert(id);
  }
  if (event.kind == PartitionEvent::kAssigned) {
    revoked_.erase(id);
    const auto& partition = partitions_[id] =
        std::make_shared<Partition>(std::move(event.progress));
    return will_balance(partition);  // a user may have paused it
  }
  if (found == partitions_.end()) return;
  if (event.kind == PartitionEvent::kRevoked) {
    revoked_.insert(id);
    revoked_until_ = from_now(options_.shutdown_wait);
  } else {
    revoked_.erase(id);
    partitions_.erase(found);
  }
}

// Drops the records of these partitions that were read, and are not posted yet. One scan for all partitions of a poll: the
// records that are set aside may be many.
void Pipeline::Engine::drop_unposted(const Partitions& given_up) {
  const auto goes = [&](const Partition::Held& held) {
    if (!given_up.contains(held.record.partition)) return false;
    drop(held);
    return true;
  };
  std::erase_if(held_, goes);
  for (auto line = aside_.begin(); line != aside_.end();) {
    std::erase_if(line->second, goes);
    line = line->second.empty() ? aside_.erase(line) : std::next(line);
  }
}

void Pipeline::Engine::take_in(std::vector<Record>& records) {
  if (records.empty()) return;
  read_.fetch_add(records.size(), std::memory_order_relaxed);
  const bool at_most_once = options_.delivery == Delivery::kAtMostOnce;
  const TimePoint now = scheduler_.now();
  for (Record& record : records) {
    const auto found = partitions_.find(record.partition);
    if (found == partitions_.end()) return fail(misplaced(record, "its partition is not assigned"));
    if (found->second->is_dropped()) continue;
    if (record.end <= record.offset) {
      return fail(misplaced(record, "its `end` is not above its offset"));
    }
    if (record.offset < found->second->ledger.end()) {
      return fail(misplaced(record, "its offset is below the end of the record before it"));
    }
    Ledger::Entry& entry = found->second->ledger.add(record.offset, record.end);
    will_balance(found->second);
    if (options_.classify && !classify(record, entry)) {
      if (failed()) break;  // records behind it must not overtake it
      continue;
    }
    if (at_most_once) entry.settle(Ledger::State::kDone);
    bytes_.fetch_add(record.value.size());
    held_.push_back({std::move(record), at_most_once ? nullptr : &entry, now});
  }
  // Before any of them begins: whatever comes then, they are not read again.
  awaits_commit_ = at_most_once;
  if (at_most_once) commit();
  dispatch_held();
}

// A record that the source must not give.
Error Pipeline::Engine::misplaced(const Record& record, const char* why) const {
  return {ErrorCode::kInvalidArgument,
          place_of(record) + ": the source gave a record of partition " +
              std::to_string(record.partition) + " at offset " + std::to_string(record.offset) +
              ", but " + why + "; see keyway/source.h"};
}

// For an error that ends the run, whatever the source does.
std::string Pipeline::Engine::place_of(const Record& record) const {
  try {
    return source_.place_of(record);
  } catch (...) {
    return std::to_string(record.partition) + ":" + std::to_string(record.offset);
  }
}

// Returns an exception as an error.
Result<bool> Pipeline::Engine::classify_safely(Record& record) {
  try {
    return options_.classify(record);
  } catch (const Exception& exception) {
    return exception.error();
  } catch (const std::exception& exception) {
    return Error{ErrorCode::kInvalidArgument, std::string("classify threw: ") + exception.what()};
  } catch (...) {
    return Error{ErrorCode::kInvalidArgument, "classify threw something without a message"};
  }
}

// False if it is not to be handled: it is left out, or the end.
bool Pipeline::Engine::classify(Record& record, Ledger::Entry& entry) {
  Result<bool> wanted = classify_safely(record);
  if (wanted.ok() && *wanted) return true;
  if (wanted.ok()) {
    entry.settle(Ledger::State::kDone);
    left_out_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  Error error = wanted.error();
  error.message = place_of(record) + ": " + error.message;
  fail(std::move(error));
  return false;
}

// Records that were set aside, of keys in which a task has ended since the last call. True if any was dispatched.
bool Pipeline::Engine::dispatch_aside() {
  if (aside_.empty()) {
    ended_keys_.watch_none();
    return false;
  }
  if (awaits_commit_) return false;
  bool any = false;
  for (const std::size_t key : ended_keys_.take()) {
    auto next = aside_.lower_bound({.key = key});
    while (next != aside_.end() && next->first.key == key) {
      auto& [line, held] = *next;
      while (!held.empty() && dispatch(partitions_.at(held.front().record.partition), line.group,
                                       key, held.front())) {
        held.pop_front();
        any = true;
      }
      next = held.empty() ? aside_.erase(next) : std::next(next);
    }
  }
  return any;
}

// Records that were just read. True if any was dispatched.
bool Pipeline::Engine::dispatch_held() {
  if (awaits_commit_) return false;
  bool any = false;
  for (Partition::Held& held : held_) {
    const std::shared_ptr<Partition>& partition = partitions_.at(held.record.partition);
    std::string group = group_of(held.record);
    const std::size_t key = hash_key(group);
    AsideLine line{key, std::move(group)};
    const auto before = aside_.empty() ? aside_.end() : aside_.find(line);
    if (before != aside_.end()) {
      before->second.push_back(std::move(held));
    } else if (dispatch(partition, line.group, key, held) ||
               (ended_keys_.watch(key) && dispatch(partition, line.group, key, held))) {
      any = true;
    } else {
      aside_[std::move(line)].push_back(std::move(held));
    }
  }
  held_.clear();
  return any;
}

// False if its key is full: then it is as it was.
bool Pipeline::Engine::dispatch(const std::shared_ptr<Partition>& partition,
                                const std::string& group, std::size_t key, Partition::Held& held) {
  will_balance(partition);
  partition->in_flight.fetch_add(1);
  in_flight_.fetch_add(1);
  dispatching_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  const bool posted = post(Item(*this, partition, key, held), group);
  dispatching_.store(std::thread::id(), std::memory_order_relaxed);
  if (!posted) held.record = *std::move(turned_away_);
  return posted;
}

// If its key is full, the item goes, and is turned away.
bool Pipeline::Engine::post(Item item, const std::string& group) {
  if (backlog_ == nullptr) {
    return executor_
        ->post(group, [this, moved = std::move(item)]() mutable { return process(&moved); })
        .ok();
  }
  backlog_->add(group, std::move(item));
  if (executor_->post(group, [this, group] { return visit(group); }).ok()) return true;
  return !backlog_->take_back(group);
}

std::string Pipeline::Engine::group_of(const Record& record) const {
  if (options_.order == Order::kPartition)
    return "\x01partition " + std::to_string(record.partition);
  return record.key ? group_of(*record.key) : std::string(kUnorderedGroup);
}

std::string Pipeline::Engine::group_of(std::string_view key) const {
  return options_.order == Order::kNone ? std::string(kUnorderedGroup) : group_of_key(key);
}

std::string Pipeline::Engine::group_of_calls(std::string_view name) {
  return name.empty() ? std::string(kUnorderedGroup) : group_of_key(name);
}

void Pipeline::Engine::will_balance(const std::shared_ptr<Partition>& partition) {
  if (!std::exchange(partition->is_listed, true)) unbalanced_.push_back(partition);
}

// Looks at the partitions that are full, and at those that may have to be paused: they were assigned, or records of them
// were read or dispatched, or a user has paused or resumed one. All others cost nothing.
void Pipeline::Engine::balance() {
  if (pauses_changed_ && pauses_changed_.exchange(false)) {
    for (const auto& [id, partition] : partitions_) will_balance(partition);
  }
  std::erase_if(unbalanced_, [&](const std::shared_ptr<Partition>& partition) {
    partition->is_listed = balance(*partition);
    return !partition->is_listed;
  });
}

// Pauses a partition that has as much in flight as it may, and resumes it when a fourth of that is free. True: it is full.
bool Pipeline::Engine::balance(Partition& partition) {
  if (partition.is_dropped()) return false;
  const auto over = [&](std::uint64_t used, std::uint64_t most) {
    return used >= (partition.paused ? low(most) : most);
  };
  const PartitionId id = partition.ledger.partition();
  partition.ledger.watermark();  // lets go of what is done
  const bool full = over(partition.in_flight, options_.max_in_flight) ||
                    over(partition.ledger.window(), options_.max_window);
  const bool pauses = full || is_paused_by_user(id);
  if (pauses == partition.paused) return full;
  partition.paused = pauses;
  try {
    pauses ? source_.pause(id) : source_.resume(id);
  } catch (...) {
    fail_by(std::current_exception());
  }
  return full;
}

// ---- committing

void Pipeline::Engine::commit_if_due() {
  const TimePoint now = scheduler_.now();
  const bool enough = done_ + dead_ - settled_at_commit_ >= options_.commit_every;
  if (now >= next_commit_ || enough) commit();
}

// What is done of all partitions. False if that failed, for now or for good.
bool Pipeline::Engine::commit() {
  next_commit_ = from_now(options_.commit_interval);
  settled_at_commit_ = done_ + dead_;
  std::vector<Progress> changed;
  for (auto& [id, partition] : partitions_) {
    Progress progress = partition->ledger.snapshot();
    if (progress != partition->last_commit) changed.push_back(std::move(progress));
  }
  if (changed.empty()) {
    commit_failures_in_a_row_ = 0;  // what failed was of a partition that is gone
    awaits_commit_ = false;
    return true;
  }
  const TimePoint began = scheduler_.now();
  const Result<void> committed = commit_safely(changed);
  committing_.add(scheduler_.now() - began);
  if (!committed) {
    ++failed_commits_;
    const bool give_up =
        !committed.error().retryable || ++commit_failures_in_a_row_ >= kMostCommitFailures;
    if (give_up) fail(committed.error());
    commit_error_ = committed.error();
    return false;
  }
  commit_failures_in_a_row_ = 0;
  awaits_commit_ = false;
  ++commits_;
  // Only now is it clean.
  for (Progress& progress : changed) {
    partitions_[progress.partition]->last_commit = std::move(progress);
  }
  return true;
}

// Whether partitions are being given back: the source is not polled meanwhile, so all of them are revoked by one poll. They
// go when nothing of them runs any more and what is done is committed, or when their time is over.
bool Pipeline::Engine::is_revoking() {
  if (revoked_.empty()) return false;
  const TimePoint now = scheduler_.now();
  const bool late = now >= revoked_until_;
  const auto runs = [&](PartitionId id) { return partitions_.at(id)->in_flight > 0; };
  if (!late && std::any_of(revoked_.begin(), revoked_.end(), runs)) return true;
  const bool failed_just_now = commit_failures_in_a_row_ > 0 && now < next_commit_;
  const auto is_uncommitted = [&](PartitionId id) {
    Partition& partition = *partitions_.at(id);
    return partition.ledger.snapshot() != partition.last_commit;
  };
  if (!late && failed_just_now && std::any_of(revoked_.begin(), revoked_.end(), is_uncommitted)) {
    return true;
  }
  if (!commit() && !late) return true;
  for (const PartitionId id : revoked_) partitions_.erase(id);
  revoked_.clear();
  return false;
}

}  // namespace keyway
