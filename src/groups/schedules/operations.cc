// What happens to the executor from outside.
#include <algorithm>
#include <array>
#include <chrono>
#include <iostream>

#include "groups/schedules/group_schedule.h"

namespace keyway {

using std::chrono::microseconds;

std::string GroupSchedule::run() {
  make_executor();
  const std::uint64_t operations = 5 + below(40);
  for (std::uint64_t i = 0; i < operations && oracle_.wrong().empty(); ++i) do_something();
  end();
  return oracle_.wrong().empty() ? "" : "seed " + std::to_string(seed_) + ": " + oracle_.wrong();
}

void GroupSchedule::say(std::string_view what, std::string_view group, std::string_view id) const {
  if (says_all_) std::cerr << what << ' ' << group << ' ' << id << '\n';
}

// ---- what may happen

void GroupSchedule::do_something() {
  const std::size_t index = any_group();
  switch (below(26)) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4:
      return submit_any(index);
    case 5:
      for (std::uint64_t i = below(8); i > 0; --i) submit_any(index);
      return;
    case 6:
      return cancel_any();
    case 7:
      if (std::optional<TaskHandle<int>> handle = take_handle()) join(std::move(*handle));
      return;
    case 8:
      return evict(index);
    case 9:
      return shut_down_group(index);
    case 10:
      return sim_.advance(microseconds(below(300)));
    case 11:
      return change_limit(index);
    case 12:
      return change_global_limit();
    case 13:
      return pause_or_resume(index);
    case 14:
      return submit_or_give_up(index);
    case 15:
      for (std::uint64_t i = below(3); i > 0; --i) submit_conflated(index);
      return;
    case 16:
      return explain_something(index);
    case 17:
    case 18:
      return check_nothing_waits();
    case 19:
      return follow_any();
    case 20:
      return make_future();
    case 21:
      return pin_or_unpin(index);
    case 22:
    case 23:
      return visit();
    default:
      for (std::uint64_t i = below(10); i > 0; --i) scheduler_.run_one();
  }
}

void GroupSchedule::pause_or_resume(std::size_t index) {
  GroupOracle::Group& group = oracle_.group(index);
  const char* key = kScheduleGroups[index];
  if (ending_) return;
  if (one_in(2)) {
    group.paused = !group.paused;
    say(group.paused ? "pause" : "resume", key);
    group.paused ? executor_->pause_group(key) : executor_->resume_group(key);
  } else {
    oracle_.pause_all(!oracle_.all_paused());
    say(oracle_.all_paused() ? "pause" : "resume", "all");
    oracle_.all_paused() ? executor_->pause() : executor_->resume();
  }
}

void GroupSchedule::resume_everything() {
  oracle_.resume_everything();
  for (const char* key : kScheduleGroups) executor_->resume_group(key);
  executor_->resume();
}

void GroupSchedule::change_limit(std::size_t index) {
  const char* key = kScheduleGroups[index];
  GroupLimits change;
  const bool adapts = oracle_.group(index).adapts;
  if (!adapts && one_in(2)) change.max_concurrency = static_cast<int>(1 + below(4));
  const bool only_concurrency = change.max_concurrency && one_in(2);
  if (!only_concurrency) {
    if (!adapts && one_in(2)) change.max_in_flight = static_cast<int>(1 + below(4));
    if (one_in(3)) change.queue_threshold = static_cast<int>(below(4));
  }
  const auto text = [](const std::optional<int>& limit) {
    return limit ? std::to_string(*limit) : "-";
  };
  say("limits", key,
      text(change.max_concurrency) + ' ' + text(change.max_in_flight) + ' ' +
          text(change.queue_threshold));
  oracle_.set_group_limits(index, change);
  expect((only_concurrency ? executor_->set_limit(key, *change.max_concurrency)
                           : executor_->set_limits(key, change))
             .ok(),
         "a limit could not be set");
}

void GroupSchedule::change_global_limit() {
  if (!oracle_.has_global_limit()) return;
  const int limit = static_cast<int>(1 + below(4));
  say("global limit", std::to_string(limit));
  oracle_.set_global_limit(limit);
  expect(executor_->set_global_limit(limit).ok(), "no global limit could be set");
}

void GroupSchedule::evict(std::size_t index) {
  say("evict", kScheduleGroups[index]);
  oracle_.evict(index);
  executor_->evict_group(kScheduleGroups[index]);
}

void GroupSchedule::shut_down_group(std::size_t index) {
  if (!one_in(3)) return;
  say("shut down", kScheduleGroups[index]);
  oracle_.shut_down_group(index);
  executor_->shutdown_group(kScheduleGroups[index]);
}

std::optional<TaskHandle<int>> GroupSchedule::take_handle() {
  if (handles_.empty()) return std::nullopt;
  std::swap(handles_[below(handles_.size())], handles_.back());
  std::optional<TaskHandle<int>> taken = std::move(handles_.back());
  handles_.pop_back();
  return taken;
}

// A task that waits in its queue can always be cancelled, and never starts then.
void GroupSchedule::cancel_any() {
  std::optional<TaskHandle<int>> handle = take_handle();
  if (!handle) return;
  GroupOracle::Task& task = oracle_.task(handle->task_id());
  say("cancel", handle->group_key(), handle->task_id());
  const bool waits = task.waits() && !task.may_be_stopped && sim_.now() < task.expires;
  task.may_be_stopped = true;
  task.cancelled = waits;
  const bool cancelled = handle->cancel();
  expect(cancelled || !waits, "a waiting task could not be cancelled: " + task.id);
  handles_.push_back(std::move(*handle));
}

void GroupSchedule::make_future() {
  if (std::optional<TaskHandle<int>> handle = take_handle()) {
    std::string id(handle->task_id());
    futures_.emplace_back(std::move(id), to_future(std::move(*handle)));
  }
}

void GroupSchedule::pin_or_unpin(std::size_t index) {
  if (pins_[index]) return pins_[index].reset();
  pins_[index] = std::make_shared<GroupHandle>(executor_->group(kScheduleGroups[index]));
}

// ---- submits

void GroupSchedule::about_to_submit(std::size_t index, std::string_view id) {
  if (!oracle_.unheard()) return;
  oracle_.submitted(index, id);
  oracle_.enters(id);
}

TaskOptions GroupSchedule::with_a_cost(std::size_t index, const std::string& id) {
  TaskOptions options{.id = id};
  if (!one_in(4)) return options;
  options.cost = oracle_.task(id).cost = static_cast<int>(2 + below(3));
  oracle_.may_shrink(index);
  return options;
}

void GroupSchedule::keep(TaskHandle<int> handle) {
  oracle_.seen_after_submit(handle.task_id(), handle.is_done());
  handles_.push_back(std::move(handle));
}

// Only a shutdown makes a submit fail.
void GroupSchedule::submit_failed(const Exception& error) {
  expect(error.code() == ErrorCode::kShutdown && oracle_.is_shut_down(),
         std::string("a submit failed: ") + error.what());
}

// From outside, waiting for room for a while, or not at all.
void GroupSchedule::submit_or_give_up(std::size_t index) {
  const std::string id = next_id();
  say("submit or give up", kScheduleGroups[index], id);
  oracle_.task(id).waits_for_room = true;
  const auto work = [this, index, id] {
    Body body(*this, index, id);
    return 1;
  };
  const TaskOptions options{.id = id};
  if (oracle_.is_shut_down()) return;
  about_to_submit(index, id);
  try {
    Result<TaskHandle<int>> handle =
        one_in(2) ? executor_->try_submit(kScheduleGroups[index], options, work)
                  : executor_->try_submit_for(kScheduleGroups[index], microseconds(below(200)),
                                              options, work);
    oracle_.seen_after_submit(id, !handle.ok() || handle->is_done());
    if (handle.ok()) return keep(std::move(*handle));
    const ErrorCode code = handle.error().code;
    expect(code == ErrorCode::kRejected || code == ErrorCode::kTimeout ||
               (code == ErrorCode::kShutdown && oracle_.is_shut_down()),
           "a submit failed: " + handle.error().message);
    expect(oracle_.unheard() || oracle_.task(id).rejected == 1,
           "a task was turned away, but its listener not told");
  } catch (const Exception& error) {
    oracle_.seen_after_submit(id, /*done=*/true);
    submit_failed(error);  // its listener shut down
  }
}

void GroupSchedule::submit_conflated(std::size_t index) {
  const std::string id = "c" + std::to_string(below(2));
  TaskOptions options{.id = id, .conflation = static_cast<Conflation>(1 + below(4))};
  if (one_in(4)) options.start_within = microseconds(below(200));
  if (one_in(4)) options.priority = 1;
  if (oracle_.is_shut_down()) return;
  about_to_submit(index, id);
  try {
    conflated_.push_back(
        executor_->submit(kScheduleGroups[index], options, [this, index, id, naps = below(3)] {
          return nap(index, id, naps, microseconds(1 + below(50)));
        }));
  } catch (const Exception& error) {
    // A listener of the task that it superseded shut down.
    submit_failed(error);
  }
}

// ---- what the executor says

void GroupSchedule::explain_something(std::size_t index) {
  const Explanation why = executor_->explain(kScheduleGroups[index]);
  const GroupStats stats = executor_->group_stats(kScheduleGroups[index]);
  expect(why.running == stats.running && why.waiting == stats.waiting, "explain() miscounts");
  expect(why.waiting > 0 || why.held_back_by == HeldBackBy::kNothing,
         "no task waits, but something holds it back: " + why.text());
  if (handles_.empty()) return;
  const TaskHandle<int>& handle = handles_[below(handles_.size())];
  const Explanation of_task = executor_->explain(handle);
  expect(!of_task.task_state.empty(), "a task is in no state");
  expect(handle.is_done() == (of_task.task_state != "waits" && of_task.task_state != "runs"),
         "a task is done or not: " + of_task.text());
  (void)executor_->hot_groups(2);
}

void GroupSchedule::check_nothing_waits() {
  sim_.run_ready();
  if (loses_) return;  // found at the end
  if (oracle_.no_thread_is_free()) return;
  std::array<std::uint64_t, 4> waiting{};
  for (std::size_t i = 0; i < waiting.size(); ++i) {
    waiting[i] = executor_->group_stats(kScheduleGroups[i]).waiting;
  }
  oracle_.check_no_task_waits_for_nothing(waiting);
  oracle_.check_tasks_come_back();
}

// ---- the end

void GroupSchedule::end() {
  ending_ = true;
  if (oracle_.wrong().empty() && !one_in(4)) run_to_the_end();
  scheduler_.find_lost();
  if (owned_executor_ != nullptr) close();
  if (owned_executor_ == nullptr) return;  // something hangs
  for (std::shared_ptr<GroupHandle>& pin : pins_) pin.reset();
  owned_executor_.reset();
  sim_.run_until_idle();  // continuations of the last tasks
  for (TaskHandle<int>& handle : handles_) check_end(handle);
  for (const auto& [id, task] : oracle_.tasks()) {
    expect(oracle_.unheard() || task.submitted == 0 || task.completed + task.rejected == 1,
           "task " + id + " has no end");
  }
  for (const TaskHandle<int>& handle : conflated_) {
    expect(handle.is_done(), "a handle of a conflated task waits for ever");
  }
  check_followed();
  expect(oracle_.unheard() || oracle_.submits() == oracle_.ends(), "not every task has one end");
  expect(oracle_.no_task_holds_permits(), "a task still runs");
}

// Code outside of tasks must have left the executor before it is destroyed.
void GroupSchedule::close() {
  closing_ = true;
  if (one_in(2)) {
    const bool was_right = oracle_.wrong().empty();
    visits_.push_back(std::make_unique<Visit>([this] { shut_down(); }));
    sim_.post(*visits_.back());
    sim_.run_until_idle();
    if (was_right && is_stuck()) {
      owned_executor_.release();  // its destructor would wait for ever
      owned_sim_.release();
    }
  } else if (acts_in_progress_ > 0) {
    resume_everything();
    sim_.run_until_idle();
    if (is_stuck()) {
      owned_executor_.release();
      owned_sim_.release();
    }
  }
  oracle_.shutdown_begins();
}

bool GroupSchedule::is_stuck() {
  const GroupStats stats = executor_->stats();
  if (says_all_ && stats.waiting > 0) {
    for (const char* group : kScheduleGroups) std::cerr << executor_->explain(group) << '\n';
  }
  expect(stats.waiting == 0, "a wake-up was lost: " + std::to_string(stats.waiting) + " wait");
  expect(stats.running == 0, "a permit was lost: " + std::to_string(stats.running) + " run");
  expect(acts_in_progress_ == 0, "a listener, a continuation or a call waits for ever");
  return stats.waiting + stats.running > 0 || acts_in_progress_ > 0;
}

void GroupSchedule::check_followed() {
  for (const Followed& one : followed_) {
    expect(one.told == 1, "a coroutine that awaited " + one.id + " was resumed " +
                              std::to_string(one.told) + " times");
  }
  for (auto& [id, future] : futures_) {
    if (future.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
      expect(false, "the future of " + id + " is not ready");
      continue;
    }
    try {
      check_result(id, future.get().status);
    } catch (const RejectedError&) {
      check_result(id, TaskStatus::kRejected);
    }
  }
}

// Nothing is ready and no timer waits: then no task may wait.
void GroupSchedule::run_to_the_end() {
  resume_everything();
  sim_.run_until_idle();
  if (is_stuck()) {
    if (loses_) return;
    owned_executor_.release();
    owned_sim_.release();
    return;
  }
  const GroupStats stats = executor_->stats();
  expect(oracle_.unheard() || stats.submitted == oracle_.submits(),
         "not all submits were counted: " + std::to_string(stats.submitted) + " of " +
             std::to_string(oracle_.submits()));
  expect(stats.submitted ==
             stats.succeeded + stats.failed + stats.cancelled + stats.expired + stats.rejected,
         "the counts do not add up");
  expect(executor_->active_group_keys().empty(), "an idle group is active");
}

void GroupSchedule::check_end(TaskHandle<int>& handle) {
  if (!handle.is_done()) return expect(false, "a handle waits for ever");
  const std::string id(handle.task_id());
  try {
    check_result(id, handle.join().status);
  } catch (const RejectedError&) {
    check_result(id, TaskStatus::kRejected);
  }
}

void GroupSchedule::check_result(const std::string& id, TaskStatus status) {
  oracle_.check_status(id, status);
}

}  // namespace keyway
