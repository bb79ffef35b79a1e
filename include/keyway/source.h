// Where records come from: the seam between a Pipeline and a file, a broker or a test.
//
// A source has partitions, each an ordered sequence of records with ascending offsets. What it has been told by
// commit() it knows again after a restart, and begins there.
//
// A source gives records only of partitions that an event kAssigned has named, in ascending order, each with an `end` above
// its offset; anything else ends the pipeline with an error. So does an exception.
//
// Thread safety: all methods are called by the pipeline, one at a time; but name(), place_of(), id_of() and
// unique_id_of() from any thread at any time.
// Lifetime: outlives the pipeline's run. It is not called after close(), although handlers may still run then.
#pragma once

#include "keyway/detail/require_cpp20.h"

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "keyway/error.h"
#include "keyway/gap_map.h"
#include "keyway/record.h"
#include "keyway/scheduler.h"

namespace keyway {

// What is done of a partition: everything below the watermark, and what the gap map says above it.
struct Progress {
  PartitionId partition = 0;
  Offset watermark = 0;
  GapMap done_above{};  // ranges of offsets
  bool operator==(const Progress&) const = default;
};

// What a poll brought besides records. The pipeline acts on it before the next poll. If that takes a while, as with
// kRevoked, it goes on with the records that it has.
struct PartitionEvent {
  enum Kind {
    kAssigned,  // from now on records may come, beginning at `progress`; not before
    kRevoked,   // no more records come; what is done can still be committed, until the next poll
    kLost,      // another one has it by now: nothing can be committed
  } kind = kAssigned;
  Progress progress{};  // kAssigned: what was committed before
};

struct Polled {
  enum State {
    kMore,  // call again at once
    kIdle,  // nothing now: call again when woken, or after `idle_for`
    kEnd,   // nothing will come any more
  } state = kIdle;
  Duration idle_for = std::chrono::milliseconds(20);  // max(): only when woken
};

class Source {
 public:
  virtual ~Source() = default;

  // For messages: "orders.jsonl", "kafka://host/topic".
  virtual std::string name() const = 0;

  // Where a record is, for messages: "orders.jsonl:1042".
  virtual std::string place_of(const Record& record) const {
    return name() + ":" + std::to_string(record.partition) + ":" + std::to_string(record.offset);
  }
  // Short, and the same after a restart; no two records of the source have the same.
  virtual std::string id_of(const Record& record) const {
    return std::to_string(record.partition) + ":" + std::to_string(record.offset);
  }
  // The same, but no record of any other source has it either: what a handler may remember to know a record again.
  virtual std::string unique_id_of(const Record& record) const {
    return name() + "/" + id_of(record);
  }

  // Comes first. `wake` may be called when there is something new, from any thread, until close() has
  // returned, and never after that: the pipeline may then be destroyed. So close() waits for calls of
  // `wake` in progress. `wake` waits for nothing of the source. If open() fails, close() is not called,
  // and `wake` must not be called after open() has returned.
  virtual Result<void> open(std::function<void()> wake) = 0;
  // Appends what there is, without waiting: at most `most` records, of partitions that are not paused, and none of
  // what an assigned partition's progress says is done.
  virtual Result<Polled> poll(std::vector<Record>& records, std::vector<PartitionEvent>& events,
                              std::size_t most) = 0;
  // Stores what is done. When it returns it is stored; on an error nothing is known, and it is tried again: that of a
  // revoked partition, too, but not after shutdown_wait.
  virtual Result<void> commit(std::span<const Progress> progress) = 0;
  virtual void pause(PartitionId partition) = 0;
  virtual void resume(PartitionId partition) = 0;
  // Where a partition ends at this moment, if that is known: for metrics.
  virtual std::optional<Offset> end_of(PartitionId) const { return {}; }
  // The pipeline has committed what it could. When close() returns, or throws, no thread is in `wake` or
  // will call it.
  virtual void close() {}
};

}  // namespace keyway
