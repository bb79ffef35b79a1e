// Handles the records of a source: many at once, in order per key, each at least once.
//
//   Pipeline pipeline(source, {.order = Order::kKey, .concurrency = 64, .dead_letters = letters},
//                     [](const Record& record) { return bill(record) ? done() : retry(); });
//   Result<PipelineEnd> end = pipeline.run_until(stop);
//
// A handler is a callable that takes a Record, and an Attempt if it wants to know which one it is.
// It returns an Outcome, or nothing (done), or is a coroutine that gives either. What it throws is
// a retry, unless it is a PermanentError. A handler that takes a Batch handles several records at
// once: see batch.h. The concept is in record_handler.h.
//
// Guarantees:
//   (1) No record is lost: what is committed never passes one that is neither handled nor stored as a dead letter.
//   (2) Within a key a record begins only after the one before it is settled (or `key_concurrency` of them run).
//   (3) A record that waits for its next try holds its key, and nothing else: no thread, no place of `concurrency`.
//   (4) After a crash, what is handled again is what was not covered by the last commit and its gap map.
//   (5) What is held in memory is bounded, also if the first record never ends.
// With Delivery::kAtMostOnce, instead of (1) and (4): a record is committed before it is handled, and never comes again.
// Not guaranteed: that a record is handled only once; any order between keys. A record without a key is in order with
// no other.
//
// Thread safety: every method from any thread. run_until() runs once: a second call is an error.
// Lifetime: the scheduler outlives it; it and the source and the stores outlive run_until(). Handlers that still run when
// `shutdown_wait` is over may end later: nothing becomes of their records, which come again in another run. The
// destructor waits for them.
#pragma once

#include "keyway/detail/require_cpp20.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "keyway/batch.h"
#include "keyway/dead_letters.h"
#include "keyway/explanation.h"
#include "keyway/group_policy.h"
#include "keyway/handled_ids.h"
#include "keyway/outcome.h"
#include "keyway/record.h"
#include "keyway/record_handler.h"
#include "keyway/source.h"
#include "keyway/task.h"

namespace keyway {

enum class Order { kKey, kPartition, kNone };
enum class Delivery { kAtLeastOnce, kAtMostOnce };
// What happens after a record was stored as a dead letter.
enum class OnDead {
  kContinue,  // the next record of its key is handled
  kPark,  // the following records of its key become dead letters too, so that they can be replayed in order
  kHalt,  // the pipeline ends
};

struct RetryPolicy {
  int attempts = 4;  // in all
  Duration first =
      std::chrono::milliseconds(500);  // the wait before the second, at most; then twice that, ...
  Duration ceiling = std::chrono::seconds(30);
  Duration
      attempt_timeout{};  // then a coroutine is asked to stop, which counts as a retry; 0: none
};

struct PipelineOptions {
  Order order = Order::kKey;
  int key_concurrency = 1;
  int concurrency = 16;
  // Sets key, group or defect of each record that is read. False: the pipeline skips the record. An
  // error or an exception ends the pipeline. Called by one thread at a time.
  std::function<Result<bool>(Record&)> classify{};
  // Besides the order of keys, limits for groups: a record runs when its group has room.
  bool by_group = false;
  int group_concurrency = 1;  // of groups that `limits` does not name
  // With by_group: limits of groups by name. Without: limits of keys by name, which need Order::kKey, because in the other
  // orders a key has no queue of its own.
  std::map<std::string, GroupLimits, std::less<>> limits{};
  BatchOptions
      batch{};  // for a handler that takes a Batch; `concurrency` counts batches then. Not with `by_group`.
  Delivery delivery = Delivery::kAtLeastOnce;
  RetryPolicy retry{};
  std::shared_ptr<DeadLetters> dead_letters{};  // null: the first dead letter ends the pipeline
  OnDead on_dead = OnDead::kContinue;
  std::size_t max_in_flight = 10'000;                        // records, of each partition
  std::size_t max_in_flight_bytes = std::size_t{256} << 20;  // in all
  int max_in_flight_per_key =
      1'000;  // in line; those that are read beyond are set aside, and others pass them
  // How far above the first record that is not done others may be handled, in records of a partition.
  std::size_t max_window = 100'000;
  Duration commit_interval = std::chrono::seconds(1);
  std::uint64_t commit_every = 100'000;               // records, if that comes first
  Duration shutdown_wait = std::chrono::seconds(30);  // for what runs, on revoke and at the end
  std::optional<RateLimit> rate{};                    // of all records together
  // Of each key; needs Order::kKey. It does not hold back records without a key: see `rate`.
  std::optional<RateLimit> key_rate{};
  // Ids (Source::unique_id_of) of records that were handled, for handlers that must not see one twice.
  std::shared_ptr<HandledIds> handled_ids{};
  std::uint64_t seed = 0;  // of the jitter; 0: a random one

  // An error (kInvalidArgument) that names the first option that is out of range, or that has no effect
  // with the others: limits of keys, or key_rate, without Order::kKey. The constructor of Pipeline throws
  // it. Numbers are at least 1, except max_in_flight_per_key; commit_interval is above 0.
  Result<void> validate() const;
};

// At most a tenth of a second old, but for idle sources.
struct PartitionStats {
  PartitionId partition = 0;
  Offset watermark = 0;          // the first that is not done
  Offset committed = 0;          // the watermark that the source has stored
  Offset read = 0;               // above all that were read
  std::optional<Offset> lag{};   // from the watermark to the source's end, in offsets
  std::uint64_t pending = 0;     // records that wait or run
  std::uint64_t retrying = 0;    // that wait for their next try
  std::uint64_t done_above = 0;  // above the watermark
  std::uint64_t gaps = 0;        // how many runs of these
  Duration oldest_incomplete{};  // how long the watermark has stood at its record; 0: there is none
  bool is_paused = false;        // it has as much in flight as it may, or somebody paused it
};

struct PipelineStats {
  std::uint64_t read = 0;
  std::uint64_t done = 0;
  std::uint64_t done_after_retry = 0;  // of these
  std::uint64_t retries = 0;
  std::uint64_t dead = 0;
  std::uint64_t duplicates = 0;  // were in handled_ids, and are done
  std::uint64_t left_out = 0;    // by `classify`
  std::uint64_t dropped = 0;     // handed back unhandled: revoked, or the end came first
  std::uint64_t commits = 0;
  std::uint64_t failed_commits = 0;
  std::uint64_t in_flight = 0;
  std::uint64_t in_flight_bytes = 0;
  TimeSummary waiting{};   // from the read, or the due time of a retry, to the attempt
  TimeSummary handling{};  // of attempts; under high load both times are of every 16th
  TimeSummary committing{};
  std::vector<PartitionStats> partitions{};
};

struct PipelineEnd {
  enum Why { kSourceEnded, kStopped, kHalted } why = kSourceEnded;
  std::string halted_by{};  // kHalted: which record
};

namespace detail {

struct AnyHandler;
template <class F>
AnyHandler make_handler(F handler);

}  // namespace detail

class Pipeline {
 public:
  // On its own threads; or on those of a scheduler. Throws Exception (kInvalidArgument) for options out of range.
  template <RecordHandler F>
  Pipeline(Source& source, PipelineOptions options, F handler)
      : Pipeline(source, std::move(options), detail::make_handler(std::move(handler)), nullptr) {}
  template <RecordHandler F>
  Pipeline(Source& source, PipelineOptions options, F handler, Scheduler& scheduler)
      : Pipeline(source, std::move(options), detail::make_handler(std::move(handler)), &scheduler) {
  }
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  // Until the source ends, `stop` is requested, or something fails that cannot be retried: then it
  // is an error. Either way, completed records are committed; if the source has not stored the last
  // commit when shutdown_wait is over, its error is returned. An error (kInvalidArgument) if
  // run_until() was called before.
  Result<PipelineEnd> run_until(std::stop_token stop = {});

  void pause();  // begins no more records
  void resume();
  void pause_key(std::string_view key);  // begins no more records of the key; with Order::kKey only
  void resume_key(std::string_view key);
  void pause_partition(PartitionId id);  // takes no more of its records in; those in line go on
  void resume_partition(PartitionId id);

  PipelineStats stats() const;
  // Why records of a key wait; or, with `by_group`, those of a group that have their turn in their key.
  Explanation explain(std::string_view key) const;
  Explanation explain_group(std::string_view group) const;

 private:
  class Engine;
  Pipeline(Source& source, PipelineOptions options, detail::AnyHandler handler,
           Scheduler* scheduler);

  std::unique_ptr<Scheduler> own_scheduler_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace keyway

#include "keyway/detail/any_handler.h"  // IWYU pragma: export
