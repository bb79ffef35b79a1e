#include "groups/schedules/group_oracle.h"

#include <algorithm>

#include "keyway/detail/task_core.h"
#include "runtime/current_task.h"

namespace keyway {

GroupOracle::Task& GroupOracle::task(std::string_view id) {
  Task& found = tasks_[std::string(id)];
  if (found.id.empty()) found.id = id;
  return found;
}

// ---- what changes

void GroupOracle::set_group_limits(std::size_t index, const GroupLimits& change) {
  Group& group = groups_[index];
  if (change.queue_threshold) group.threshold = change.queue_threshold;
  if (group.adapts) return;
  if (change.max_concurrency) group.concurrency = *change.max_concurrency;
  if (change.max_in_flight) group.in_flight_limit = *change.max_in_flight;
  set_group_limit(index, group.limit_to_find());
}

void GroupOracle::set_group_limit(std::size_t index, int limit) {
  Group& group = groups_[index];
  if (limit < group.limit) may_shrink(index);
  group.limit = group.least_limit = limit;
  for (Permits* permits : all_permits_) {
    if (permits->group_ == index) permits->limit_changed();
  }
}

void GroupOracle::may_shrink(std::size_t index) {
  groups_[index].may_shrink = true;
  for (Permits* permits : all_permits_) {
    if (permits->group_ == index && permits->waits()) permits->give_lane_back();
  }
}

void GroupOracle::evict(std::size_t index) {
  Group& group = groups_[index];
  if (group.adapts) return;
  group.concurrency = group.policy_concurrency;
  group.in_flight_limit = group.policy_in_flight_limit;
  set_group_limit(index, group.limit_to_find());
}

void GroupOracle::set_global_limit(int limit) {
  global_limit_ = limit;
  for (Permits* permits : all_permits_) permits->limit_changed();
}

void GroupOracle::resume_everything() {
  all_paused_ = false;
  for (Group& group : groups_) group.paused = false;
}

void GroupOracle::shut_down_group(std::size_t index) {
  groups_[index].was_shut_down = true;
  for (auto& [id, task] : tasks_) {
    if (task.group == index && !task.ended()) task.may_be_stopped = true;
  }
  task_ended();  // tasks that wait are gone at once
}

void GroupOracle::shutdown_begins() {
  shutdown_begun_ = true;
  for (auto& [id, task] : tasks_) task.may_be_stopped = true;
}

// ---- what the listener hears

void GroupOracle::submitted(std::size_t index, std::string_view id) {
  ++submits_;
  if (is_conflated(id)) return;
  Task& task = this->task(id);
  expect(++task.submitted == 1, "submitted twice: " + task.id);
  task.group = index;
  task.closed_a_cycle = may_close_a_cycle(task);
}

bool GroupOracle::may_close_a_cycle(const Task& task) {
  return no_thread_is_free() ||
         std::any_of(task.joined_by.begin(), task.joined_by.end(),
                     [&](const std::string& waiter) { return may_be_a_cycle(waiter, task.id); });
}

void GroupOracle::enters(std::string_view id) {
  if (is_conflated(id)) return;
  Task& task = this->task(id);
  task.enters = true;
  task.number = ++last_number_;
}

void GroupOracle::started(std::size_t index, std::string_view id) {
  Group& group = groups_[index];
  if (is_conflated(id)) {
    if (!is_run_by_caller()) check_rate(group, index);
    return;
  }
  Task& task = this->task(id);
  expect(++task.started == 1 && task.submitted == 1 && !task.ended(),
         "started out of order: " + task.id);
  expect(!task.cancelled, "started although it was cancelled before: " + task.id);
  expect(!shutdown_returned_, "started after shutdown() had returned: " + task.id);
  task.by_caller = is_run_by_caller();
  if (task.by_caller) {
    return expect(!task.waits_for_room, "run by its submitter, which waited: " + task.id);
  }
  expect(!all_paused_ && !group.paused, "started while it was paused: " + task.id);
  expect(sim_.now() <= task.expires, "started too late: " + task.id);
  check_rate(group, index);
  check_order(task);
  task.permits = std::make_unique<Permits>(*this, index, task.cost);
}

bool GroupOracle::is_run_by_caller() const {
  return callers_run_ && !detail::CurrentTaskScope::innermost()->task()->holds_permits();
}

void GroupOracle::check_order(const Task& task) {
  for (const auto& [id, other] : tasks_) {
    // A task that has expired has left its queue; the listener hears of it a moment later.
    if (!other.stands_in_queue() || sim_.now() >= other.expires || other.group != task.group) {
      continue;
    }
    if (task.waits_for_room || other.may_be_stopped) continue;
    expect(other.priority < task.priority ||
               (other.priority == task.priority && other.number > task.number),
           task.id + " started before " + id);
  }
}

// In any time t no more than burst + rate * t begin.
void GroupOracle::check_rate(Group& group, std::size_t index) {
  if (!group.rate) return;
  std::vector<TimePoint>& starts = group.starts;
  starts.push_back(sim_.now());
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const double seconds = std::chrono::duration<double>(starts.back() - starts[i]).count();
    expect(static_cast<double>(starts.size() - i) <=
               group.rate->burst + group.rate->per_second * seconds + 1e-3,
           std::string("group ") + kScheduleGroups[index] + " is over its rate");
  }
}

void GroupOracle::completed(std::string_view id, TaskStatus status) {
  ++ends_;
  if (is_conflated(id)) return;
  Task& task = this->task(id);
  expect(++task.completed == 1 && task.submitted == 1 && task.rejected == 0,
         "completed out of order: " + task.id);
  expect(task.started == 1 || status == TaskStatus::kCancelled ||
             (status == TaskStatus::kExpired && sim_.now() >= task.expires),
         "completed unstarted: " + task.id);
  expect(!task.cancelled || status == TaskStatus::kCancelled,
         "cancelled before it began, but not kCancelled: " + task.id);
  expect(task.permits == nullptr, "completed while it runs: " + task.id);
  task.status = status;
  task_ended();
}

void GroupOracle::rejected(std::string_view id, RejectionReason reason) {
  ++ends_;
  if (is_conflated(id)) return;
  Task& task = this->task(id);
  // The call checks it before on_submitted(), during which others may end.
  task.closed_a_cycle =
      reason == RejectionReason::kWaitCycle && (task.closed_a_cycle || may_close_a_cycle(task));
  expect(++task.rejected == 1 && task.submitted == 1 && task.started + task.completed == 0,
         "rejected out of order: " + task.id);
  task.status = TaskStatus::kRejected;
  bool allowed = false;
  switch (reason) {
    case RejectionReason::kQueueFull:
      allowed = groups_[task.group].threshold.has_value();
      break;
    case RejectionReason::kGlobalQueueFull:
      allowed = has_global_limit() && global_threshold_.has_value();
      break;
    case RejectionReason::kNoRoomInTime:
    case RejectionReason::kStopped:
      allowed = task.waits_for_room;
      break;
    case RejectionReason::kWaitCycle:
      allowed = task.waits_for_room || task.closed_a_cycle;
      break;
    case RejectionReason::kConflated:
      break;
    case RejectionReason::kGroupShutdown:
      allowed = groups_[task.group].was_shut_down;
      break;
    case RejectionReason::kShutdown:
      allowed = shutdown_begun_;
      break;
  }
  expect(allowed, "rejected for no reason: " + task.id + ", " + to_string(reason));
}

// ---- without a listener

void GroupOracle::seen_after_submit(std::string_view id, bool done) {
  if (!unheard_ || !done || is_conflated(id)) return;
  if (Task& task = this->task(id); task.started == 0) task.ended_unheard = true;
}

void GroupOracle::body_ended(std::string_view id) {
  Task& task = this->task(id);
  task.permits = nullptr;
  task.ended_unheard = unheard_;
}

void GroupOracle::check_status(const std::string& id, TaskStatus status) {
  Task& task = this->task(id);
  if (unheard_ && !task.status) {
    const bool must_have_run = status == TaskStatus::kSuccess || status == TaskStatus::kFailed;
    expect(task.started == (must_have_run ? 1 : 0) || status == TaskStatus::kCancelled,
           "its status does not say whether it ran: " + id);
    expect(!task.cancelled || status == TaskStatus::kCancelled,
           "cancelled before it began, but not kCancelled: " + id);
    expect(status != TaskStatus::kExpired || sim_.now() >= task.expires, "expired early: " + id);
    task.status = status;
    task.ended_unheard = true;
  }
  expect(status == task.status, "a handle and its listener disagree: " + id);
  expect(task.permits == nullptr, "its result came before its permits were back: " + id);
}

// ---- when nothing is ready

int GroupOracle::units_held_at_most(std::size_t index) const {
  int units = 0;
  for (const Permits* permits : all_permits_) {
    if (permits->group_ == index) units += permits->most_units();
  }
  return units;
}

int GroupOracle::global_permits_held_at_most() const {
  return static_cast<int>(
      std::count_if(all_permits_.begin(), all_permits_.end(), [](const Permits* permits) {
        return permits->sleeps_ > 0 || (permits->open_waits_ == 0 && permits->rests_ == 0);
      }));
}

void GroupOracle::check_no_task_waits_for_nothing(const std::array<std::uint64_t, 4>& waiting) {
  if (all_paused_ || global_permits_held_at_most() >= global_limit_) return;
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const Group& group = groups_[i];
    if (waiting[i] == 0 || group.paused || group.rate || group.adapts) continue;
    int cost = 1;
    for (const auto& [id, task] : tasks_) {
      if (task.group == i && !task.ended()) cost = std::max(cost, task.cost);
    }
    const int needed = std::min(cost, group.least_limit);
    expect(units_held_at_most(i) + needed > group.least_limit,
           std::string("a wake-up was lost: tasks of group ") + kScheduleGroups[i] +
               " wait although there is room");
  }
}

// A task comes back in front of all that wait to begin, also while its group is paused.
void GroupOracle::check_tasks_come_back() {
  if (global_permits_held_at_most() >= global_limit_) return;
  for (const Permits* permits : all_permits_) {
    const Group& group = groups_[permits->group_];
    if (permits->open_waits_ == 0 || group.adapts) continue;
    const auto over = std::find_if(waits_.begin(), waits_.end(), [&](const Wait* wait) {
      return wait->permits_ == permits && wait->over_ && wait->over_();
    });
    if (over == waits_.end()) continue;
    const int needed = std::min(permits->cost_, group.least_limit);
    const int others = units_held_at_most(permits->group_) - permits->most_units();
    expect(others + needed > group.least_limit, "a wake-up was lost: " + (*over)->waiter_ +
                                                    " does not come back from its wait although "
                                                    "there is room");
  }
}

// ---- waits

GroupOracle::Wait::Wait(GroupOracle& oracle, std::string waiter, std::string target,
                        Permits* permits, bool same_group, std::function<bool()> over)
    : oracle_(oracle),
      waiter_(std::move(waiter)),
      target_(std::move(target)),
      permits_(permits),
      same_group_(same_group),
      over_(std::move(over)),
      place_(oracle.waits_.insert(oracle.waits_.end(), this)) {
  if (permits_ != nullptr) permits_->begin_wait(same_group_);
}

GroupOracle::Wait::~Wait() {
  oracle_.waits_.erase(place_);
  if (permits_ != nullptr) permits_->end_wait(same_group_, refused_);
}

void GroupOracle::add_dependencies(const std::string& id, std::vector<std::string>& found) {
  const auto add_tasks = [&](std::optional<std::size_t> group) {
    for (const auto& [other, task] : tasks_) {
      if (task.submitted > 0 && !task.ended() && (!group || task.group == *group)) {
        found.push_back(other);
      }
    }
  };
  if (id == Wait::kAll) {
    for (const Wait* wait : waits_) found.push_back(wait->waiter_);  // listeners, too
    return add_tasks(std::nullopt);
  }
  const Task& task = this->task(id);
  bool waits = false;
  for (const Wait* wait : waits_) {
    if (wait->waiter_ != id) continue;
    if (!wait->ends_by_itself_) found.push_back(wait->target_);
    waits = true;
  }
  // A task that was refused room has ended by now.
  if (task.waits_for_room && task.started == 0) add_tasks(std::nullopt);
  // It needs a permit of its group, to begin or to come back.
  if (task.waits() || waits) add_tasks(task.group);
}

bool GroupOracle::may_be_a_cycle(const std::string& waiter, const std::string& target) {
  if (waiter.empty()) return false;
  std::set<std::string> seen{target};
  std::vector<std::string> next{target};
  while (!next.empty()) {
    const std::string id = next.back();
    next.pop_back();
    if (id == waiter) return true;
    std::vector<std::string> found;
    add_dependencies(id, found);
    for (std::string& one : found) {
      if (seen.insert(one).second) next.push_back(std::move(one));
    }
  }
  return false;
}

std::string GroupOracle::task_left(std::optional<std::size_t> index) {
  const std::string what = index ? std::string("group ") + kScheduleGroups[*index] : "executor";
  for (const Permits* permits : all_permits_) {
    if (!index || permits->group_ == *index) return "a task of the " + what + " runs";
  }
  for (const auto& [id, task] : tasks_) {
    if (!task.stands_in_queue() || task.may_be_stopped || sim_.now() >= task.expires) continue;
    if (!index || task.group == *index) return "a task of the " + what + " waits: " + id;
  }
  return "";
}

void GroupOracle::task_ended() {
  for (Drain* drain : drains_) {
    if (!drain->saw_no_tasks_) drain->saw_no_tasks_ = task_left(drain->index_).empty();
  }
}

GroupOracle::Drain::Drain(GroupOracle& oracle, std::optional<std::size_t> index)
    : oracle_(oracle), index_(index), place_(oracle.drains_.insert(oracle.drains_.end(), this)) {}

GroupOracle::Drain::~Drain() { oracle_.drains_.erase(place_); }

void GroupOracle::Drain::check() {
  const std::string left = oracle_.task_left(index_);
  oracle_.expect(saw_no_tasks_ || left.empty(), "drained, but " + left);
}

// ---- permits

GroupOracle::Permits::Permits(GroupOracle& oracle, std::size_t group, int cost)
    : oracle_(oracle),
      group_(group),
      cost_(cost),
      units_(std::min(cost, oracle.groups_[group].least_limit)),
      place_(oracle.all_permits_.insert(oracle.all_permits_.end(), this)) {
  start_window();
  waits_in_own_group_ = 1;  // it takes both permits for the first time: both limits are checked
  waits_begun_ = 1;
  take_back();
}

GroupOracle::Permits::~Permits() {
  give_lane_back();
  give_global_back();
  oracle_.all_permits_.erase(place_);
  oracle_.task_ended();
}

void GroupOracle::Permits::start_window() {
  waits_in_own_group_ = 0;
  waits_begun_ = 0;
  most_limit_ = oracle_.groups_[group_].limit;
  least_limit_ = oracle_.groups_[group_].least_limit;
  most_global_ = oracle_.global_limit_;
  note_most_ever();
}

void GroupOracle::Permits::note_most_ever() {
  most_limit_ever_ = std::max(most_limit_ever_, most_limit_);
  most_global_ever_ = std::max(most_global_ever_, most_global_);
}

void GroupOracle::Permits::limit_changed() {
  most_limit_ = std::max(most_limit_, oracle_.groups_[group_].limit);
  least_limit_ = std::min(least_limit_, oracle_.groups_[group_].least_limit);
  most_global_ = std::max(most_global_, oracle_.global_limit_);
  note_most_ever();
}

void GroupOracle::Permits::begin_wait(bool same_group) {
  if (open_waits_++ == 0 && rests_ == 0) start_window();
  ++waits_begun_;
  if (same_group) ++waits_in_own_group_;
  give_global_back();
  if (same_group || oracle_.groups_[group_].may_shrink) give_lane_back();
}

void GroupOracle::Permits::end_wait(bool same_group, bool refused) {
  if (refused) {
    --waits_begun_;
    if (same_group) --waits_in_own_group_;
  }
  if (--open_waits_ == 0 && rests_ == 0) take_back();
}

void GroupOracle::Permits::begin_rest() {
  if (rests_++ == 0 && open_waits_ == 0) start_window();
  ++waits_begun_;
  give_global_back();
}

void GroupOracle::Permits::end_rest() {
  if (--rests_ == 0 && open_waits_ == 0) take_back();
}

void GroupOracle::Permits::give_lane_back() {
  if (!std::exchange(has_lane_, false)) return;
  oracle_.groups_[group_].running_units -= units_;
}

void GroupOracle::Permits::give_global_back() {
  if (!std::exchange(has_global_, false)) return;
  --oracle_.running_in_all_;
}

// A task that gave its permits back got them again under the limits of that moment, which is not known: the highest of
// the time of the wait hold. A task whose waits were all refused never gave them back; nor did a task of which another
// branch ran all the time, which is not known: of a task with branches, the highest limits since it started hold.
void GroupOracle::Permits::take_back() {
  Group& group = oracle_.groups_[group_];
  if (!std::exchange(has_lane_, true)) {
    if (waits_in_own_group_ > 0) units_ = std::min(cost_, least_limit_);
    group.running_units += units_;
    oracle_.expect(waits_in_own_group_ == 0 ||
                       group.running_units <= (has_branches_ ? most_limit_ever_ : most_limit_),
                   std::string("group ") + kScheduleGroups[group_] + " is over its limit");
  }
  if (!std::exchange(has_global_, true)) {
    ++oracle_.running_in_all_;
    oracle_.expect(waits_begun_ == 0 || oracle_.running_in_all_ <=
                                            (has_branches_ ? most_global_ever_ : most_global_),
                   "over the global limit");
  }
}

}  // namespace keyway
