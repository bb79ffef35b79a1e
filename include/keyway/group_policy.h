// Who may run with whom: the limits of a GroupExecutor, and what happens at them.
//
//   GroupPolicy policy{
//       .groups = {{"vip", {.max_concurrency = 4}}, {"db", {.max_concurrency = 2, .queue_threshold = 100}}},
//       .resolver = [](std::string_view key) { return key.starts_with("vip:") ? 4 : 1; },
//       .global_max_in_flight = 256,
//   };
//
// Compilers do not name a misspelt field inside nested braces ("no matching function for call"). Write the type, and the
// message names the field: {"vip", GroupLimits{.max_concurency = 4}}.
//
// Three layers limit what runs: all groups together (global_max_in_flight), one group's tasks in
// flight (max_in_flight), one group's tasks running (max_concurrency). A task starts when every
// layer has room, and takes all its permits at once; a task that waits holds none.
//
// How a group's limits are found, each by itself: what `groups` says of the key; else, for
// max_concurrency, what `resolver` says; else what `default_group` says. They are found at the
// first use of a key and forgotten some time after its last, or by evict_group().
#pragma once

#include "keyway/detail/require_cpp20.h"

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
  kAbort,       // it ends kRejected, and every wait for it throws RejectedError
  kDiscard,     // it ends kRejected
  kCallerRuns,  // it runs on the thread that submits it, under no permit
};

const char* to_string(RejectionPolicy policy);

// So many may start per second, and `burst` at once after a pause.
struct RateLimit {
  double per_second = 0;  // above 0, at most 9e9
  int burst = 1;          // at least 1
};

// A limit that is found by measuring how long tasks take: as many as are served without waiting for each
// other inside what serves them. It starts at the floor.
struct AdaptiveLimits {
  int floor = 1;  // at least 1
  int ceiling = 64;
};

struct GroupLimits {
  std::optional<int> max_concurrency{};  // at least 1; default 1
  std::optional<int> max_in_flight{};    // at least 1; default unlimited
  // How many tasks the group may hold back: 0 means that a task which cannot start at once is
  // turned away. Tasks that only the global limit holds back do not count.
  std::optional<int> queue_threshold{};  // at least 0; default unlimited

  // When groups compete for threads or for the global limit, one of weight 3 gets three times as many
  // turns as one of weight 1. Under a global limit, coroutines that end many at once get shares that are more even.
  std::optional<int> weight{};  // 1 to 1,000; default 1
  // How many of the global limit the group can count on. While it does not use them, others may; it
  // gets the next permits that come free. Only for groups that the policy names, and in total no
  // more than the global limit. Without effect if there is no global limit.
  std::optional<int> guaranteed{};  // at least 0; default 0
  std::optional<RateLimit> rate{};
  std::optional<AdaptiveLimits> adaptive{};  // instead of max_concurrency, for tasks that succeed
};

namespace detail {
// Names the first that is out of range. `of`: whose they are, for the message.
Result<void> validate_limits(const GroupLimits& limits, const std::string& of);
}  // namespace detail

// Decides for one task that was turned away. What it throws is what whoever awaits the task gets.
using RejectionHandler =
    std::function<RejectionPolicy(std::string_view group_key, std::string_view task_id)>;

struct GroupPolicy {
  std::map<std::string, GroupLimits, std::less<>> groups{};
  // A value below 1 counts as 1; if it throws, the default holds. Called from many threads, also by a task that has given its
  // permits back to wait for room: it must not wait for tasks, locks or room.
  std::function<int(std::string_view key)> resolver{};
  GroupLimits default_group{};
  int global_max_in_flight = kUnlimited;
  // How many tasks may wait because the global limit is reached.
  int global_queue_threshold = kUnlimited;
  RejectionPolicy rejection = RejectionPolicy::kAbort;
  RejectionHandler rejection_handler{};  // replaces `rejection` if it is set
  std::shared_ptr<TaskLifecycleListener> listener{};
  // When groups compete for the global limit, the one whose next task was submitted first goes
  // first, instead of the one that came in line first. (A group whose task has just ended comes in
  // line after that one's place was given away.) Without effect if any group has a weight or a
  // guarantee.
  bool oldest_first = false;
  // Keeps an eye on every task: explain() knows all who run, hot_groups() and group_times() what the
  // busiest 1,024 groups wait and run. Takes four short locks and one more clock reading per task.
  bool observe = false;

  // Names the first limit that is out of range. A GroupExecutor refuses such a policy.
  Result<void> validate() const;

  // The limits of a group, all set that have a value if nobody says.
  GroupLimits resolve(std::string_view key) const;
  // Of these, what no resolver has to be asked for: all but max_concurrency and queue_threshold.
  GroupLimits resolve_shares(std::string_view key) const;
};

}  // namespace keyway
