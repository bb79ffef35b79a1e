// What a single task asks for, beyond its group. A task that asks for nothing costs nothing.
//
//   executor.submit("page", {.id = url, .conflation = Conflation::kShareResult}, fetch);
//   executor.submit("db", {.id = "export", .cost = 3, .priority = -1, .start_within = 5s}, write_rows);
#pragma once

#include "keyway/detail/require_cpp20.h"

#include <optional>
#include <string_view>

#include "keyway/detail/enum_text.h"
#include "keyway/scheduler.h"

namespace keyway {

// What becomes of a task whose group has another one with the same id that has not ended yet. Only tasks
// that were submitted with a Conflation other than kNone see each other.
enum class Conflation : unsigned char {
  kNone,
  kKeepOldest,  // the new task ends kRejected
  // When the new task has entered the queue, an older queued task ends kCancelled, and the new one
  // has its place in the queue. The same holds for tasks that wait for room.
  kKeepNewest,
  kCancelRunning,  // the same, and one that runs is asked to stop
  // The new one does not run: it ends as the other does, with a copy of its value. For a value that
  // cannot be copied, the submit throws Exception (kInvalidArgument).
  kShareResult,
};

const char* to_string(Conflation conflation);

// A task with options has a value that can be copied, or one whose type says that it cannot: a struct
// with a std::vector<std::unique_ptr<T>> does not say so by itself, and needs a deleted copy constructor.
struct TaskOptions {
  std::string_view id{};  // a submit copies it

  // How much of its group's limit the task takes while it runs; at least 1. One that costs more than
  // the limit takes all of it, and runs alone. Those behind it wait until it has what it needs.
  int cost = 1;

  // Within its group, tasks of a higher priority start first; those of equal priority in the order
  // they were submitted.
  int priority = 0;

  // A task that has not begun when this time is over ends kExpired, and never runs. A task that shares the result of
  // another one (kShareResult) does not run at all, so it has no effect there.
  std::optional<Duration> start_within{};

  Conflation conflation = Conflation::kNone;

  bool operator==(const TaskOptions&) const = default;
};

}  // namespace keyway
