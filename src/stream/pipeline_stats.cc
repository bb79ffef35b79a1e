// What can be seen of a pipeline from outside, and which partitions it is told to leave alone.
#include "stream/pipeline_engine.h"

namespace keyway {

namespace {

constexpr Duration kBetweenShows = std::chrono::milliseconds(100);

}  // namespace

PipelineStats Pipeline::Engine::stats() const {
  PipelineStats stats{.read = read_,
                      .done = done_,
                      .done_after_retry = done_after_retry_,
                      .retries = retries_,
                      .dead = dead_,
                      .duplicates = duplicates_,
                      .left_out = left_out_,
                      .dropped = dropped_,
                      .commits = commits_,
                      .failed_commits = failed_commits_,
                      .in_flight = in_flight_,
                      .in_flight_bytes = bytes_,
                      .waiting = summary_of(waiting_.snapshot()),
                      .handling = handling_.summary(),
                      .committing = summary_of(committing_.snapshot()),
                      .partitions = {}};
  MutexLock lock(shown_mutex_);
  stats.partitions = shown_;
  return stats;
}

// An exception of the source ends the run.
std::optional<Offset> Pipeline::Engine::end_of(PartitionId id) {
  try {
    return source_.end_of(id);
  } catch (...) {
    fail_by(std::current_exception());
    return std::nullopt;
  }
}

// The ledgers are the pump's: it shows others what is in them.
void Pipeline::Engine::show() {
  const TimePoint now = scheduler_.now();
  next_show_ = time_after(now, kBetweenShows);
  std::vector<PartitionStats> shown;
  for (auto& [id, partition] : partitions_) {
    Ledger& ledger = partition->ledger;
    const Ledger::Counts counts = ledger.counts();
    const Offset watermark = ledger.watermark();
    if (std::exchange(partition->seen_watermark, watermark) != watermark) {
      partition->seen_since = now;
    }
    PartitionStats stats{.partition = id,
                         .watermark = watermark,
                         .committed = partition->last_commit.watermark,
                         .read = ledger.end(),
                         .lag = end_of(id),
                         .pending = counts.pending,
                         .retrying = counts.retrying,
                         .done_above = counts.done_above,
                         .gaps = counts.gaps,
                         .is_paused = partition->paused};
    if (stats.lag) *stats.lag = std::max<Offset>(0, *stats.lag - watermark);
    if (ledger.window() > 0) stats.oldest_incomplete = now - partition->seen_since;
    shown.push_back(stats);
  }
  MutexLock lock(shown_mutex_);
  shown_ = std::move(shown);
}

void Pipeline::Engine::pause_partition(PartitionId id, bool pause) {
  {
    MutexLock lock(shown_mutex_);
    if (pause) {
      paused_by_user_.insert(id);
    } else {
      paused_by_user_.erase(id);
    }
  }
  pauses_changed_ = true;
  // If the source is not open yet, the first step applies the pause.
  if (is_open_.load(std::memory_order_acquire)) wake();
}

bool Pipeline::Engine::is_paused_by_user(PartitionId id) {
  MutexLock lock(shown_mutex_);
  return paused_by_user_.contains(id);
}

}  // namespace keyway
