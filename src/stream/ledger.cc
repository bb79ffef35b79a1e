#include "stream/ledger.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "keyway/detail/check.h"

namespace keyway {

Ledger::Ledger(Progress committed)
    : partition_(committed.partition),
      done_before_(std::move(committed.done_above)),
      end_(committed.watermark) {}

Ledger::Entry& Ledger::add(Offset offset, Offset end) {
  KEYWAY_CHECK(offset >= end_ && end > offset, "records of a partition must come in order");
  if ((first_ + size_) / kBlock == blocks_.size()) blocks_.push_back(std::make_unique<Block>());
  Entry& entry = at(size_++);
  entry.offset_ = offset;
  entry.state_.store(State::kPending, std::memory_order_relaxed);
  end_ = end;
  return entry;
}

void Ledger::pop_front() {
  --size_;
  if (++first_ < kBlock) return;
  blocks_.pop_front();
  first_ = 0;
}

void Ledger::pass_what_is_done() {
  while (size_ > 0 && at(0).settled()) pop_front();
}

Offset Ledger::watermark() {
  pass_what_is_done();
  return size_ > 0 ? at(0).offset() : end_;
}

Progress Ledger::snapshot() {
  Progress progress{.partition = partition_, .watermark = watermark(), .done_above = {}};
  GapMap& map = progress.done_above;
  const auto add_range = [&](OffsetRange range) {
    if (range.begin >= range.end) return;
    if (!map.empty() && map.back().end == range.begin) {
      map.back().end = range.end;
    } else {
      map.push_back(range);
    }
  };
  // What was done before lies between the entries, or has not been reached again.
  auto before = done_before_.begin();
  const auto add_before = [&](Offset from, Offset to) {
    while (before != done_before_.end() && before->end <= from) ++before;
    for (auto range = before; range != done_before_.end() && range->begin < to; ++range) {
      add_range({std::max(range->begin, from), std::min(range->end, to)});
    }
  };
  for (std::size_t i = 0; i < size_; ++i) {
    if (at(i).settled()) {
      add_range({at(i).offset(), end_of(i)});
    } else {
      add_before(at(i).offset(), end_of(i));
    }
  }
  add_before(end_, std::numeric_limits<Offset>::max());
  // Nothing is missing in front of it.
  if (size_ == 0 && !map.empty() && map.front().begin == progress.watermark) {
    progress.watermark = map.front().end;
    map.erase(map.begin());
  }
  return progress;
}

Ledger::Counts Ledger::counts() {
  pass_what_is_done();
  Counts counts;
  bool in_gap_run = false;
  for (std::size_t i = 0; i < size_; ++i) {
    const State state = at(i).state();
    counts.pending += state == State::kPending ? 1 : 0;
    counts.retrying += state == State::kRetrying ? 1 : 0;
    const bool settled = state >= State::kDone;
    counts.done_above += settled ? 1 : 0;
    counts.gaps += settled && !in_gap_run ? 1 : 0;
    in_gap_run = settled;
  }
  return counts;
}

}  // namespace keyway
