// Who may run with whom: the limits of a GroupExecutor, and what happens at them.
//
//   GroupPolicy policy{
//       .groups = {{"vip", {.max_concurrency = 4}}, {"db", {.max_concurrency = 2, .queue_threshold = 100}}},
//       .resolver = [](std::string_view key) { return key.starts_with("vip:") ? 4 : 1; },
//       .global_max_in_flight = 256,
//   };
//
// Three layers limit what runs: all groups together (global_max_in_flight), one group's tasks in
// flight (max_in_flight), one group's tasks running (max_concurrency). A task starts when every
// layer has room, and takes all its permits at once; a task that waits holds none.
//
// How a group's limits are found, each by itself: what `groups` says of the key; else, for
// max_concurrency, what `resolver` says; else what `default_group` says. They are found at the
// first use of a key and forgotten some time after its last, or by evict_group().
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "keyway/error.h"
#include "keyway/task_listener.h"

namespace keyway {

inline constexpr int kUnlimited = std::numeric_limits<int>::max();

// What becomes of a task that a queue threshold turns away.
enum class RejectionPolicy {
  kAbort,       // it ends kRejected, and whoever awaits it gets a RejectedError
  kDiscard,     // it ends kRejected
  kCallerRuns,  // it runs on the thread that submits it, under no permit
};

struct GroupLimits {
  std::optional<int> max_concurrency;  // at least 1; if nobody says, 1
  std::optional<int> max_in_flight;    // at least 1; if nobody says, unlimited
  // How many tasks the group may hold back: 0 means that a task which cannot start at once is
  // turned away. Tasks that only the global limit holds back do not count.
  std::optional<int> queue_threshold;  // at least 0; if nobody says, unlimited
};

namespace detail {
// Names the first that is out of range. `of`: whose they are, for the message.
Result<void> validate_limits(const GroupLimits& limits, const std::string& of);
}  // namespace detail

// Decides for one task that was turned away. What it throws is what whoever awaits the task gets.
using RejectionHandler =
    std::function<RejectionPolicy(std::string_view group_key, std::string_view task_id)>;

struct GroupPolicy {
  std::map<std::string, GroupLimits, std::less<>> groups;
  // A value below 1 counts as 1; if it throws, the default holds. Called from many threads.
  std::function<int(std::string_view key)> resolver;
  GroupLimits default_group;
  int global_max_in_flight = kUnlimited;
  // How many tasks may wait because the global limit is reached.
  int global_queue_threshold = kUnlimited;
  RejectionPolicy rejection = RejectionPolicy::kAbort;
  RejectionHandler rejection_handler;  // if set, `rejection` is not asked
  std::shared_ptr<TaskLifecycleListener> listener;

  // Names the first limit that is out of range. A GroupExecutor refuses such a policy.
  Result<void> validate() const;

  // The three limits of a group, all set.
  GroupLimits resolve(std::string_view key) const;
};

}  // namespace keyway
