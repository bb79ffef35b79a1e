// Why a group or a task is where it is: see GroupExecutor::explain().
#pragma once

#include "keyway/detail/require_cpp20.h"

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "keyway/detail/enum_text.h"
#include "keyway/scheduler.h"

namespace keyway {

// What keeps the next task from starting, or the task that was asked for.
enum class HeldBackBy {
  kNothing,      // nobody waits, or a thread is about to come
  kGroupLimit,   // as many of the group run as may
  kGlobalLimit,  // as many of all groups run as may
  kPause,        // of the group: see pause_group()
  kPauseOfAll,   // of all groups: see pause()
  kRate,         // too many have started lately
  kFullQueue,    // the task waits for room in its queue: see try_submit_for()
  kOtherTask,    // it runs, and waits for another task, a lock, or other work: see `waits_for`
};

const char* to_string(HeldBackBy by);

// What a group stands for, which text() names.
enum class Explained : unsigned char {
  kGroup,
  kKey,         // a key of a SerialDispatcher
  kWorker,      // a worker of a SerialDispatcher with Routing::kSticky, and its keys
  kRecords,     // a key of a Pipeline
  kRecordGroup  // a group of a Pipeline with `by_group`
};

// A moment's picture: by the time it is read, things may have moved on.
struct Explanation {
  std::string group_key{};
  Explained explained = Explained::kGroup;
  HeldBackBy held_back_by = HeldBackBy::kNothing;

  std::uint64_t running = 0;
  std::uint64_t limit = 0;  // of the group
  std::uint64_t waiting = 0;
  std::uint64_t global_running = 0;
  std::uint64_t global_limit = 0;  // 0: there is none
  bool limits_are_fixed = false;   // those of a SerialDispatcher, and of a Pipeline

  // Those who run, longest first, no more than five. Without GroupPolicy::observe only those that take
  // a stop token or are coroutines are known.
  struct Holder {
    std::string group_key{};
    std::string task_id{};
    Duration runs_for{};
    std::string waits_for{};  // as that of a task, below; empty: it does not wait
  };
  std::vector<Holder> holders{};
  std::optional<Duration> tokens_in{};  // kRate: the time until the next task may start

  // Of a task only.
  std::optional<std::string> task_id{};
  std::string task_state{};                 // "waits", "runs", "success", ...
  std::optional<std::uint64_t> position{};  // in its group's queue; 1 is next
  std::optional<Duration> runs_for{};
  std::string waits_for{};  // kOtherTask: for what: task "1" of group "a", or key "k"

  // One line, for people: which limit holds it back, who holds that, and what would let it go on.
  std::string text() const;
};

std::ostream& operator<<(std::ostream& out, const Explanation& explanation);

// How long the tasks of a group waited, or ran. Quantiles are within 1/32.
struct TimeSummary {
  std::uint64_t count = 0;
  Duration p50{};
  Duration p95{};
  Duration p99{};
  Duration max{};
};

// Of an executor that observes: one of the groups with the most tasks.
struct HotGroup {
  std::string group_key{};
  std::uint64_t started = 0;  // at most; and at least `started - error`
  std::uint64_t error = 0;
  TimeSummary waiting{};
  TimeSummary running{};
};

}  // namespace keyway
