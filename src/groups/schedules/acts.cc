// What tasks, listeners, continuations and threads outside of tasks may do while the executor works.
#include <algorithm>
#include <chrono>
#include <coroutine>
#include <exception>
#include <memory>

#include "groups/schedules/group_schedule.h"
#include "keyway/detail/task_core.h"
#include "runtime/current_task.h"

namespace keyway {

using std::chrono::microseconds;

GroupSchedule::Actor GroupSchedule::here() {
  Actor actor;
  for (const auto* scope = detail::CurrentTaskScope::innermost(); scope != nullptr;
       scope = scope->outer()) {
    const detail::TaskCore* task = scope->task();
    if (task == nullptr || GroupOracle::is_conflated(task->task_id())) continue;
    const std::size_t group = schedule_group(task->group_key());
    actor.ids.emplace_back(task->task_id());
    if (!task->ending()) actor.groups.insert(group);
    if (actor.permits != nullptr || !task->holds_permits()) continue;
    actor.permits = oracle_.task(task->task_id()).permits.get();
    actor.group = group;
  }
  return actor;
}

class GroupSchedule::Waits {
 public:
  // `over`: whether the wait could be over; null if that is not known.
  Waits(GroupOracle& oracle, const Actor& actor, const std::string& target, bool gives_back,
        std::function<bool()> over)
      : oracle_(oracle), actor_(actor), target_(target) {
    Permits* permits = gives_back ? actor.permits : nullptr;
    const bool same_group =
        actor.group && target != Wait::kAll && oracle.task(target).group == *actor.group;
    const bool known = over != nullptr;
    for (const std::string& id : actor.ids) {
      waits_.push_back(std::make_unique<Wait>(oracle, id, target, std::exchange(permits, nullptr),
                                              same_group, over));
      if (!known) waits_.back()->refused();
    }
  }

  void refused() {
    for (const std::unique_ptr<Wait>& wait : waits_) wait->refused();
  }
  bool may_be_a_cycle() const {
    return std::any_of(actor_.ids.begin(), actor_.ids.end(),
                       [&](const std::string& id) { return oracle_.may_be_a_cycle(id, target_); });
  }

 private:
  GroupOracle& oracle_;
  const Actor& actor_;
  const std::string target_;
  std::vector<std::unique_ptr<Wait>> waits_;
};

bool GroupSchedule::is_refusal(const Exception& error, bool may_be_a_cycle) const {
  // Where tasks wait for each other because none of them has a thread, the error names their waits: kWaitCycle.
  if (oracle_.no_thread_is_free() && error.code() == ErrorCode::kWaitCycle) return true;
  if (error.code() == ErrorCode::kNoThread) return oracle_.no_thread_is_free();
  return error.code() == ErrorCode::kWaitCycle && may_be_a_cycle;
}

void GroupSchedule::visit() {
  ++acts_in_progress_;  // from here on it wants to go in
  visits_.push_back(std::make_unique<Visit>([this] {
    --acts_in_progress_;
    act();
  }));
  sim_.post(*visits_.back());
}

void GroupSchedule::follow_any() {
  if (std::optional<TaskHandle<int>> handle = take_handle()) {
    Followed& followed = followed_.emplace_back(Followed{.id = std::string(handle->task_id())});
    follow(std::move(*handle), followed);
  }
}

// Goes on once, when the task's permits are back.
ForeignCoroutine GroupSchedule::follow(TaskHandle<int> handle, Followed& followed) {
  TaskStatus status = TaskStatus::kRejected;
  try {
    status = (co_await handle).status;
  } catch (const RejectedError&) {
  } catch (const Exception& error) {
    expect(false, "a coroutine's wait for " + followed.id + " failed: " + error.what());
  }
  ++followed.told;
  check_result(followed.id, status);
  if (!closing_ && one_in(2)) act();
}

void GroupSchedule::act() {
  ++acts_in_progress_;
  const std::size_t index = any_group();
  std::string who;
  if (says_all_) {
    for (const std::string& id : here().ids) who += id + ' ';
    say("act begins", who);
  }
  switch (below(24)) {
    case 0:
    case 1:
    case 2:
      submit_any(index);
      break;
    case 3:
    case 4:
    case 5:
    case 6:
      submit_and_join();
      break;
    case 7:
    case 8:
    case 9:
      join_any();
      break;
    case 10:
    case 11:
      cancel_any();
      break;
    case 12:
    case 13:
    case 14:
      execute_all();
      break;
    case 15:
    case 16:
      drain();
      break;
    case 17:
    case 18:
    case 19:
      drain_group(index);
      break;
    case 20:
      if (one_in(2)) shut_down();
      break;
    case 21:
      shut_down_group(index);
      break;
    case 22:
      pause_or_resume(index);
      break;
    default:
      change_limit(index);
  }
  --acts_in_progress_;
  say("act ends", who);
}

// ---- waits for one task

void GroupSchedule::submit_and_join() {
  const std::size_t index = any_group();
  const std::string id = next_id();
  submit(index, with_a_cost(index, id), [this, index, id, naps = below(2)] {
    return nap(index, id, naps, microseconds(1 + below(50)));
  });
  if (handles_.empty() || handles_.back().task_id() != id) return;
  TaskHandle<int> handle = std::move(handles_.back());
  handles_.pop_back();
  join(std::move(handle));
}

void GroupSchedule::join_any() {
  if (std::optional<TaskHandle<int>> handle = take_handle()) join(std::move(*handle));
}

Task<TaskStatus> GroupSchedule::status_of(TaskHandle<int>& handle) {
  co_return (co_await handle).status;
}

std::stop_token GroupSchedule::stopped_later() {
  std::stop_source stop;
  visits_.push_back(std::make_unique<Visit>([stop]() mutable { stop.request_stop(); }));
  sim_.post(*visits_.back());
  return stop.get_token();
}

// The result comes, or the time is over, or the wait is stopped, or the task depends on the waiter.
void GroupSchedule::join(TaskHandle<int> handle) {
  const std::string id(handle.task_id());
  const Actor actor = here();
  const bool bounded = !may_wait() || one_in(3);
  const bool in_coroutine = !bounded && one_in(4);
  const bool may_be_stopped = !in_coroutine && one_in(4);
  say(in_coroutine ? "await" : "join", handle.group_key(), id);
  const Duration timeout = microseconds(below(150));
  const TimePoint deadline = sim_.now() + timeout;
  const std::stop_token stop = may_be_stopped ? stopped_later() : std::stop_token();
  const auto wait = [&] {
    if (in_coroutine) return sync_wait(scheduler_, status_of(handle));
    if (may_be_stopped) {
      return (bounded ? handle.await_for(timeout, stop) : handle.await(stop)).status;
    }
    return (bounded ? handle.join_for(timeout) : handle.join()).status;
  };
  Waits waits(oracle_, actor, id, !handle.is_done(), [&] { return handle.is_done(); });
  try {
    const TaskStatus status = wait();
    if (status != TaskStatus::kTimedOut) {
      expect(std::find(actor.ids.begin(), actor.ids.end(), id) == actor.ids.end(),
             "joined itself: " + id);
      return check_result(id, status);
    }
    expect(bounded && sim_.now() >= deadline, "a wait timed out too soon: " + id);
  } catch (const RejectedError& error) {
    const bool by_handler = dynamic_cast<const RefusedByHandler*>(&error) != nullptr;
    expect(by_handler == oracle_.task(id).refused_by_exception,
           "another error than the handler's: " + id);
    return check_result(id, TaskStatus::kRejected);
  } catch (const CancelledError&) {
    expect(stop.stop_requested(), "a wait was stopped for no reason: " + id);
  } catch (const Exception& error) {
    waits.refused();
    expect(loses_ || is_refusal(error, !bounded && waits.may_be_a_cycle()),
           std::string("a wait was refused: ") + error.what());
  }
  handles_.push_back(std::move(handle));
}

// ---- waits for several

// When it returns, nothing of it runs or will run.
void GroupSchedule::execute_all() {
  if (!may_wait()) return;
  struct Call {
    bool over = false;
    std::stop_source stop;
  };
  const auto call = std::make_shared<Call>();
  std::vector<GroupTask<int>> tasks;
  std::vector<std::string> ids;
  const Actor actor = here();
  std::vector<std::unique_ptr<Waits>> waits;
  const bool stops = one_in(3);
  for (std::uint64_t i = 1 + below(4); i > 0; --i) {
    const std::size_t index = any_group();
    const std::string id = next_id();
    ids.push_back(id);
    tasks.emplace_back(kScheduleGroups[index], with_a_cost(index, id),
                       [this, call, index, id, stops, naps = below(3)]() -> Task<int> {
                         Body body(*this, index, id);
                         expect(!call->over, id + " runs after its execute_all()");
                         for (std::uint64_t left = naps; left > 0; --left) {
                           co_await sleep_for(microseconds(1 + below(30)));
                         }
                         if (stops && one_in(2)) call->stop.request_stop();
                         expect(!call->over, id + " runs after its execute_all()");
                         co_return 1;
                       });
    oracle_.task(id).group = index;
    oracle_.task(id).joined_by = actor.ids;
    oracle_.task(id).entry_unknown = oracle_.unheard();
    about_to_submit(index, id);
    waits.push_back(std::make_unique<Waits>(oracle_, actor, id, /*gives_back=*/true, nullptr));
  }
  if (stops) {
    for (const std::string& id : ids) oracle_.task(id).may_be_stopped = true;
  }
  const auto end_call = [&] {
    call->over = true;
    for (const std::string& id : ids) oracle_.seen_after_submit(id, /*done=*/true);
  };
  try {
    const std::vector<GroupResult<int>> results =
        executor_->execute_all(std::move(tasks), call->stop.get_token());
    end_call();
    expect(results.size() == ids.size(), "execute_all() gave too few results");
    for (std::size_t i = 0; i < ids.size(); ++i) {
      expect(results[i].task_id == ids[i], "execute_all() gave results in another order");
      const GroupOracle::Task& task = oracle_.task(ids[i]);
      if (task.submitted == 0) {
        expect(results[i].status ==
                       (oracle_.is_shut_down() ? TaskStatus::kRejected : TaskStatus::kCancelled) ||
                   (stops && results[i].status == TaskStatus::kCancelled),
               "a task that was not submitted has another status: " + ids[i]);
      } else {
        check_result(ids[i], results[i].status);
      }
    }
  } catch (const Exception& error) {
    end_call();
    if (error.code() == ErrorCode::kShutdown) return submit_failed(error);
    const bool refused =
        oracle_.unheard() || std::any_of(ids.begin(), ids.end(), [&](const std::string& id) {
          return oracle_.task(id).closed_a_cycle;
        });
    expect(refused && (error.code() == ErrorCode::kWaitCycle ||
                       (error.code() == ErrorCode::kNoThread && scheduler_.bounded())),
           std::string("execute_all() failed: ") + error.what());
  }
}

// ---- until there are no tasks

// A task cannot wait for its own end. A listener cannot wait for a task that waits for the task that is ending.
void GroupSchedule::drain() {
  const bool bounded = !may_drain() || one_in(2);
  say("drain", bounded ? "for a while" : "all");
  const Actor actor = here();
  const Waits waits(oracle_, actor, Wait::kAll, /*gives_back=*/true, nullptr);
  GroupOracle::Drain ends(oracle_, std::nullopt);
  try {
    const bool drained = bounded ? executor_->drain(microseconds(below(300))) : executor_->drain();
    expect(!actor.runs(), "a task could drain its executor");
    expect(drained || bounded, "drain() ended too soon");
    if (drained) ends.check();
  } catch (const Exception& error) {
    expect(is_refusal(error, actor.runs() || (!bounded && waits.may_be_a_cycle())),
           std::string("drain() failed: ") + error.what());
  }
}

void GroupSchedule::drain_group(std::size_t index) {
  const Actor actor = here();
  const bool bounded = !may_drain() || one_in(2);
  say("drain", kScheduleGroups[index], bounded ? "for a while" : "");
  const bool own = actor.groups.contains(index);
  const Waits waits(oracle_, actor, Wait::kAll, /*gives_back=*/true, nullptr);
  GroupOracle::Drain ends(oracle_, index);
  try {
    const bool drained =
        bounded ? executor_->drain_group(kScheduleGroups[index], microseconds(below(300)))
                : executor_->drain_group(kScheduleGroups[index]);
    expect(!own, "a task could drain its group");
    expect(drained || bounded, "drain_group() ended too soon");
    // A task that came back for its permits may have waited for them a while.
    const bool gave_back =
        actor.permits != nullptr && (oracle_.has_global_limit() || actor.permits->has_branches());
    if (drained && !gave_back) {
      ends.check();
    }
  } catch (const Exception& error) {
    expect(is_refusal(error, own || (!bounded && waits.may_be_a_cycle())),
           std::string("drain_group() failed: ") + error.what());
  }
}

// When it has returned, no task begins any more; with a timeout, none runs either.
void GroupSchedule::shut_down() {
  const bool waits = may_wait() && one_in(2);
  say("shut down", waits ? "and waits" : "");
  oracle_.shutdown_begins();
  const Actor actor = here();
  const Waits all(oracle_, actor, Wait::kAll, /*gives_back=*/false, nullptr);
  if (waits) {
    executor_->shutdown(microseconds(below(200)));
    expect(actor.runs() || all.may_be_a_cycle() || oracle_.no_thread_is_free() ||
               oracle_.no_task_holds_permits(),
           "shutdown() left a task running");
  } else {
    executor_->shutdown();
  }
  oracle_.shutdown_returned();
}

}  // namespace keyway
