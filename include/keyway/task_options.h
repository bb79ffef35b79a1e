// What a single task asks for, beyond its group. A task that asks for nothing costs nothing.
//
//   executor.submit("db", {.id = "export", .cost = 3, .priority = -1, .start_within = 5s}, write_rows);
#pragma once

#include <optional>
#include <string_view>

#include "keyway/scheduler.h"

namespace keyway {

struct TaskOptions {
  std::string_view id{};

  // How much of its group's limit the task takes while it runs; at least 1. One that costs more than
  // the limit takes all of it, and runs alone. Those behind it wait until it has what it needs.
  int cost = 1;

  // Within its group, tasks of a higher priority start first; those of equal priority in the order
  // they were submitted.
  int priority = 0;

  // A task that has not begun when this time is over ends kExpired, and never runs.
  std::optional<Duration> start_within{};

  bool operator==(const TaskOptions&) const = default;
};

}  // namespace keyway
