// The limits of a schedule's executor, and what decides about tasks that they turn away.
#include <algorithm>
#include <array>
#include <stdexcept>

#include "groups/schedules/group_schedule.h"

namespace keyway {

void GroupSchedule::make_executor() {
  GroupPolicy policy;
  if (one_in(2)) {
    policy.global_max_in_flight = static_cast<int>(1 + below(4));
    oracle_.set_global_limit(policy.global_max_in_flight);
  }
  policy.oldest_first = one_in(4);
  const bool shares = one_in(3);
  const bool rated = one_in(4);
  int promised = 0;
  for (std::size_t i = 0; i < kScheduleGroups.size(); ++i) {
    make_group(policy, i, shares, rated, promised);
  }
  if (one_in(3)) make_resolver(policy);
  if (one_in(3)) policy.global_queue_threshold = static_cast<int>(below(5));
  policy.rejection = static_cast<RejectionPolicy>(below(3));
  if (one_in(3)) {
    policy.rejection_handler = [this](std::string_view, std::string_view id) {
      return decide_rejection(id);
    };
  }
  oracle_.set_rejection(
      policy.rejection == RejectionPolicy::kCallerRuns || policy.rejection_handler,
      policy.global_queue_threshold == kUnlimited ? std::nullopt
                                                  : std::optional(policy.global_queue_threshold));
  policy.observe = one_in(4);
  if (one_in(4)) {
    oracle_.set_unheard();
  } else {
    policy.listener = std::shared_ptr<TaskLifecycleListener>(this, [](auto*) {});
  }
  owned_executor_ = std::make_unique<GroupExecutor>(std::move(policy), scheduler_);
  executor_ = owned_executor_.get();
  if (one_in(2)) acts_left_ = static_cast<int>(below(8));
}

void GroupSchedule::make_group(GroupPolicy& policy, std::size_t index, bool shares, bool rated,
                               int& promised) {
  GroupOracle::Group& group = oracle_.group(index);
  GroupLimits limits{.max_concurrency = static_cast<int>(1 + below(3))};
  if (one_in(3)) limits.queue_threshold = group.threshold = static_cast<int>(below(4));
  if (one_in(4)) limits.max_in_flight = static_cast<int>(1 + below(3));
  group.concurrency = group.policy_concurrency = *limits.max_concurrency;
  group.in_flight_limit = group.policy_in_flight_limit = limits.max_in_flight.value_or(kUnlimited);
  group.limit = group.least_limit = group.limit_to_find();
  if (shares && one_in(2)) limits.weight = static_cast<int>(1 + below(5));
  if (shares && promised < oracle_.global_limit() && one_in(2)) limits.guaranteed = 1, ++promised;
  if (rated && one_in(2)) {
    limits.rate = RateLimit{.per_second = 1'000.0 * static_cast<double>(1 + below(100)),
                            .burst = static_cast<int>(1 + below(3))};
    group.rate = *limits.rate;
  }
  if (rated && one_in(4)) {
    limits.max_concurrency.reset();
    limits.adaptive = AdaptiveLimits{.floor = 1, .ceiling = 3};
    group.adapts = group.may_shrink = true;
    group.least_limit = std::min(1, group.in_flight_limit);
    group.limit = std::min(3, group.in_flight_limit);
  }
  policy.groups[kScheduleGroups[index]] = limits;
}

// A limit below 1 counts as 1. Where the resolver throws, the default holds.
void GroupSchedule::make_resolver(GroupPolicy& policy) {
  constexpr int kThrows = 0;
  constexpr int kDefault = 2;
  policy.default_group.max_concurrency = kDefault;
  std::array<int, kScheduleGroups.size()> resolved{};
  for (std::size_t i = 0; i < kScheduleGroups.size(); ++i) {
    GroupOracle::Group& group = oracle_.group(i);
    if (group.adapts || one_in(2)) continue;
    resolved[i] = static_cast<int>(below(5)) - 1;
    policy.groups[kScheduleGroups[i]].max_concurrency.reset();
    const int limit = resolved[i] == kThrows ? kDefault : std::max(1, resolved[i]);
    group.concurrency = group.policy_concurrency = limit;
    group.limit = group.least_limit = group.limit_to_find();
  }
  policy.resolver = [resolved](std::string_view key) {
    const int limit = resolved[schedule_group(key)];
    if (limit == kThrows) throw std::runtime_error("no limit is known of this group");
    return limit;
  };
}

RejectionPolicy GroupSchedule::decide_rejection(std::string_view id) {
  if (GroupOracle::is_conflated(id)) return static_cast<RejectionPolicy>(below(3));
  GroupOracle::Task& task = oracle_.task(id);
  task.turned_away = true;
  listener_acts(id);
  if (one_in(4)) {
    task.refused_by_exception = true;
    throw RefusedByHandler();
  }
  // A handler that has shut the executor down lets no task begin.
  return oracle_.is_shut_down() ? RejectionPolicy::kDiscard
                                : static_cast<RejectionPolicy>(below(3));
}

}  // namespace keyway
