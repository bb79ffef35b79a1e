// What a Pipeline is inside.
//
// The pump reads, dispatches and commits; it alone knows the partitions, so nothing of this is
// locked. Each record is a coroutine task of an executor whose groups are the keys: the executor
// keeps order, limits, rates and pauses. A task that has handled a record sets the flag of its
// ledger entry and counts it out. The task's value wakes the pump after the task has given its
// permit back (see TaskEnd), so the next step finds room for the key. A step tries records that were set
// aside only if a task of their key has ended (see EndedKeys).
//
// A record's way:
//   poll -> [aside: its key is full] -> executor -> process -> settled, or dropped
//
// Thread safety: as Pipeline says.
#pragma once

#include <atomic>
#include <compare>
#include <cstddef>
#include <deque>
#include <exception>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/histogram.h"
#include "base/mutex.h"
#include "base/token_bucket.h"
#include "keyway/detail/atomic.h"
#include "keyway/group_executor.h"
#include "keyway/pipeline.h"
#include "runtime/sampled_times.h"
#include "runtime/thread_wakeup.h"
#include "runtime/time_after.h"
#include "stream/ended_keys.h"
#include "stream/partition.h"
#include "stream/pump.h"

namespace keyway {

class Pipeline::Engine final : private Pump, private Timer {
 public:
  Engine(Source& source, PipelineOptions options, detail::AnyHandler handler, Scheduler& scheduler);
  ~Engine();

  Result<PipelineEnd> run_until(std::stop_token stop);

  Explanation explain(std::string_view key) const { return executor_->explain(group_of(key)); }
  Explanation explain_group(std::string_view name) const {
    return (calls_ ? calls_ : executor_)->explain(group_of_calls(name));
  }
  PipelineStats stats() const KEYWAY_EXCLUDES(shown_mutex_);
  void pause_all(bool pause) KEYWAY_EXCLUDES(paused_mutex_);
  void pause_key(std::string_view key, bool pause) KEYWAY_EXCLUDES(paused_mutex_);
  bool is_paused(std::string_view group) KEYWAY_EXCLUDES(paused_mutex_);
  void pause_partition(PartitionId id, bool pause) KEYWAY_EXCLUDES(shown_mutex_);

 private:
  // The executor's name for a key, and for a group of records with `by_group`.
  std::string group_of(std::string_view key) const;
  static std::string group_of_calls(std::string_view name);

  // A record in flight. If it goes without having been settled, it is dropped.
  class Item;
  // Which records stand in line where they were set aside: those of a group, in the order of reading,
  // whatever their partition.
  struct AsideLine {
    std::size_t key = 0;  // the group's hash
    std::string group{};
    auto operator<=>(const AsideLine&) const = default;
  };
  // What was tried of it.
  struct Tries {
    int number = 0;
    std::chrono::system_clock::time_point first{};
    Duration wait{};  // before the next one
  };

  class Run;
  class Measured;  // an attempt, while it lives
  class Storing;   // a use of the source or of a store by a record
  class BatchMember;
  class TaskEnd;
  struct Tried;      // with its record
  class AnyDropped;  // of the partitions of a batch
  class BatchLine;   // records that have their turn, and wait for others to be handled with
  class KeyBacklog;  // records by key, for who takes several of them

  bool takes_distinct_keys() const;
  bool takes_one_key() const;
  bool has_two_levels() const { return options_.by_group || takes_distinct_keys(); }

  // The pump.
  bool step() override;
  void ended() override { over_.wake(); }
  void fire() override { wake(); }
  void wait_until(TimePoint time);
  TimePoint next_look() const;
  TimePoint from_now(Duration duration) const;
  bool read();
  Result<Polled> poll_safely();
  Result<void> commit_safely(std::span<const Progress> progress);
  using Partitions = std::set<PartitionId>;
  void take_in(std::vector<PartitionEvent>& events);
  void take_in(PartitionEvent& event, Partitions& given_up);
  void take_in(std::vector<Record>& records);
  Error misplaced(const Record& record, const char* why) const;
  std::string place_of(const Record& record) const;
  std::optional<Offset> end_of(PartitionId id);
  bool classify(Record& record, Ledger::Entry& entry);
  Result<bool> classify_safely(Record& record);
  void show() KEYWAY_EXCLUDES(shown_mutex_);
  bool is_paused_by_user(PartitionId id) KEYWAY_EXCLUDES(shown_mutex_);
  void drop_unposted(const Partitions& given_up);
  void drop(const Partition::Held& held) {
    ++dropped_;
    bytes_.fetch_sub(held.record.value.size());
  }
  bool dispatch_aside();
  bool dispatch_held();
  bool dispatch(const std::shared_ptr<Partition>& partition, const std::string& group,
                std::size_t key, Partition::Held& held);
  bool post(Item item, const std::string& group);
  void will_balance(const std::shared_ptr<Partition>& partition);
  void balance();
  bool balance(Partition& partition);
  bool is_revoking();
  void commit_if_due();
  bool commit();
  Result<void> close_source();
  void begin_end_if_due() KEYWAY_EXCLUDES(failure_mutex_);
  void resume_all() KEYWAY_EXCLUDES(paused_mutex_);
  void begin_end(PipelineEnd::Why why);
  bool end_if_quiet() KEYWAY_EXCLUDES(failure_mutex_);
  bool failed() KEYWAY_EXCLUDES(failure_mutex_);

  // A record, on any thread.
  Task<TaskEnd> process(Item* in_flight);
  bool settled_at_once(Item& item, Tries& tries);
  Task<void> process_in_turns(Item* in_flight, Tries tries);
  Attempt begin_try(Tries& tries, TimePoint queued) const;
  enum class Judged { kOver, kAgain };
  static Outcome outcome_of(std::exception_ptr thrown);
  static std::string reason_of(const Outcome& outcome);
  bool settled_untried(Item& item);
  Judged judge(Item& item, Tries& tries, const Outcome& outcome);
  Task<std::optional<Outcome>> attempt(Item* item, Attempt attempt);
  Outcome call_plain(const Record& record, const Attempt& attempt);
  Task<Outcome> call_coroutine(const Record* record, Attempt attempt);
  Task<std::optional<Outcome>> call_in_group(Item* item, Attempt attempt);
  Task<std::optional<Outcome>> call_if_wanted(Item* item, Attempt attempt);
  Task<TaskEnd> visit(std::string group);
  Task<void> visit_backlog(std::string group);
  Task<void> rest_together(std::list<Tried>* batch, Duration duration);
  static bool is_dropped(Tried& one);
  void settle_or_keep(std::list<Tried>& batch, const std::vector<Outcome>& outcomes);
  Task<void> run_batch(std::vector<BatchMember*> members);
  Task<std::vector<Outcome>> call_batch(std::span<const Batch::Member> members);
  Task<void> rest(std::stop_token dropped, Duration duration);
  Duration backoff(int attempts) KEYWAY_EXCLUDES(random_mutex_);
  Duration until_rate_allows() KEYWAY_EXCLUDES(rate_mutex_);
  void bury(Item& item, const Tries& tries, const Outcome& outcome);
  bool is_parked(const Record& record) KEYWAY_EXCLUDES(parked_mutex_);
  void count_out(Partition& partition);
  void left_unsettled(Item& item);
  void fail(Error error) KEYWAY_EXCLUDES(failure_mutex_);
  static Error error_of(std::exception_ptr thrown);
  void fail_by(std::exception_ptr thrown) KEYWAY_EXCLUDES(failure_mutex_);
  std::string group_of(const Record& record) const;

  Source& source_;
  const PipelineOptions options_;
  detail::AnyHandler handler_;
  Scheduler& scheduler_;

  // Have their own synchronization. Members that every record writes and members that every record
  // reads lie on different cache lines. Counters for statistics are std::atomic, so the explorer
  // ignores them.
  detail::Atomic<bool> ran_{false};
  detail::Atomic<bool> runs_{false};  // run_until() has not returned
  detail::Atomic<bool> is_open_{false};
  detail::Atomic<bool> stop_wanted_{false};
  detail::Atomic<bool> any_parked_{false};
  detail::Atomic<bool> halts_{false};           // no record begins any more: a halt, or a failure
  detail::Atomic<bool> pauses_changed_{false};  // paused_by_user_, since the pump looked at it
  EndedKeys ended_keys_;                        // while records are set aside
  // The run has ended: nothing is settled any more, and neither the source nor a store is called.
  detail::Atomic<bool> closed_{false};
  ThreadWakeup over_;
  detail::Atomic<std::uint32_t> storing_{0};  // the number of Storing objects
  // By the pump and by who handles records.
  alignas(64) detail::Atomic<std::uint64_t> in_flight_{0};
  detail::Atomic<std::uint64_t> bytes_{0};
  // By who handles records.
  alignas(64) detail::Atomic<std::uint64_t> done_{0};
  std::atomic<std::uint64_t> done_after_retry_{0};
  std::atomic<std::uint64_t> retries_{0};
  detail::Atomic<std::uint64_t> dead_{0};
  std::atomic<std::uint64_t> duplicates_{0};
  std::atomic<std::uint64_t> dropped_{0};
  ConcurrentHistogram waiting_;
  SampledTimes handling_;
  // By the pump.
  alignas(64) std::atomic<
      std::thread::
          id> dispatching_{};  // which thread, if any: a record that goes then was turned away
  std::atomic<std::uint64_t> read_{0};
  std::atomic<std::uint64_t> left_out_{0};
  std::atomic<std::uint64_t> commits_{0};
  std::atomic<std::uint64_t> failed_commits_{0};
  ConcurrentHistogram committing_;

  Mutex<> random_mutex_;
  std::mt19937_64 random_ KEYWAY_GUARDED_BY(random_mutex_);
  Mutex<> parked_mutex_;
  std::set<std::string, std::less<>> parked_ KEYWAY_GUARDED_BY(parked_mutex_);
  Mutex<> paused_mutex_;
  std::set<std::string, std::less<>> paused_groups_ KEYWAY_GUARDED_BY(paused_mutex_);
  bool keys_must_go_on_ KEYWAY_GUARDED_BY(paused_mutex_) = false;
  Mutex<LockRank::kPipelineFailure> failure_mutex_;
  std::optional<Error> failure_ KEYWAY_GUARDED_BY(failure_mutex_);
  std::string halted_by_ KEYWAY_GUARDED_BY(failure_mutex_);
  Mutex<> rate_mutex_;
  std::optional<TokenBucket> rate_ KEYWAY_GUARDED_BY(rate_mutex_);
  mutable Mutex<> shown_mutex_;
  std::vector<PartitionStats> shown_ KEYWAY_GUARDED_BY(shown_mutex_);
  std::set<PartitionId> paused_by_user_ KEYWAY_GUARDED_BY(shown_mutex_);

  // The pump's.
  std::map<PartitionId, std::shared_ptr<Partition>> partitions_;
  std::vector<std::shared_ptr<Partition>> unbalanced_;  // to be looked at by balance()
  std::set<PartitionId> revoked_;
  TimePoint revoked_until_{};  // when they are given back, whatever still runs
  std::vector<Record> records_;
  std::vector<PartitionEvent> events_;
  std::vector<Partition::Held> held_;  // just read
  // Records whose key has as many in line as it may. Others pass them.
  std::map<AsideLine, std::deque<Partition::Held>> aside_;
  std::optional<Record> turned_away_;
  bool source_ended_ = false;
  bool bytes_full_ = false;
  bool awaits_commit_ = false;  // at most once: what was read begins after that
  int commit_failures_in_a_row_ = 0;
  std::optional<Error> commit_error_;  // of the last commit that failed
  TimePoint next_commit_{};
  TimePoint next_poll_ = TimePoint::max();
  TimePoint next_show_{};
  std::uint64_t settled_at_commit_ = 0;
  std::optional<PipelineEnd::Why> ending_;
  TimePoint end_by_{};

  // With groups, a record's task has its key, and its call, a task of the other executor, has its group and its place
  // of `concurrency`: so one that waits for its group keeps nobody but its key from going on.
  std::optional<GroupExecutor> calls_;
  std::unique_ptr<BatchLine> batch_line_;
  std::unique_ptr<KeyBacklog> backlog_;
  std::optional<GroupExecutor> executor_;
};

}  // namespace keyway
