// Waits for a task, by threads and by coroutines. For the waits of tasks see waits.h.
#include "groups/blocked_wait.h"
#include "groups/group_engine.h"
#include "keyway/submit_awaiter.h"
#include "keyway/task_handle.h"
#include "runtime/current_task.h"
#include "runtime/time_after.h"

namespace keyway {

using detail::TaskCore;

namespace {

using Waited = detail::TaskOwner::Waited;

}  // namespace

TaskCore* detail::task_on_this_thread() {
  for (const auto* scope = detail::CurrentTaskScope::innermost(); scope != nullptr;
       scope = scope->outer()) {
    TaskCore* task = scope->task();
    if (task != nullptr && task->holds_permits()) return task;
  }
  return nullptr;
}

Result<Waited> GroupEngine::wait(TaskCore& task, const TimePoint* deadline, std::stop_token stop) {
  // When the task is done, another thread may destroy the engine and the scheduler.
  Scheduler* const driven = scheduler_.is_driven() ? &scheduler_ : nullptr;
  if (driven == nullptr && spin_for(task, kSpinsForTask, 0)) return Waited::kDone;
  deadline = bound_of(deadline);
  BlockedWait wait;
  if (Result<void> begun = wait.begin(task, /*bounded=*/deadline != nullptr); !begun) {
    return begun.error();
  }
  const WaitEnd end =
      block(task, {.deadline = deadline, .stop = std::move(stop), .scheduler = driven});
  wait.end(driven);
  switch (end) {
    case WaitEnd::kDone:
      return Waited::kDone;
    case WaitEnd::kTimedOut:
      return Waited::kTimedOut;
    case WaitEnd::kStopped:
      return Waited::kStopped;
    case WaitEnd::kStuck:
      break;
  }
  return Error{ErrorCode::kWaitCycle,
               "waiting for " + name_of(task) + " would never end: nothing is left that could run"};
}

static_assert(detail::TaskOwner::Need::kUnlimited == kUnlimited);

detail::TaskOwner::Need GroupEngine::need(TaskCore& task) {
  if (task.ending()) return {};
  // A follower has a wait for its leader: see FollowerWait.
  if (task.has_extras() && task.extras().follows.load(std::memory_order_relaxed)) return {};
  const std::uint32_t comes_back = waits_.wants_back(task);
  const bool outside = task.awaits_room();
  const std::string_view key = task.group_key();
  Lane* lane_of_task = nullptr;  // only compared: the lane may be freed
  Need need = table_.with_lane(key, LaneTable::hash(key), [&](Lane* lane) -> Need {
    lane_of_task = lane;
    if (lane == nullptr) return {};
    const std::uint32_t limit = lane->limits().running;
    if (comes_back > 0) return {.room = lane->needed_to_return(comes_back), .limit = limit};
    return {.room = lane->needed_for(task.waiter(), outside), .limit = limit};
  });
  if (outside && lane_of_task != nullptr) {
    // Tasks enter in the order of the line, so this task may need the permits of a costlier one.
    const std::uint64_t in_line = intake_.largest_cost_in_line(lane_of_task);
    need.room = std::max(need.room, std::min(in_line, need.limit));
  }
  // A queued task needs a thread to run, and a suspended coroutine needs one to go on. A plain task
  // that runs has a thread.
  need.thread = need.room > 0 || outside || task.operations().is_coroutine;
  return need;
}

namespace detail {

TimePoint deadline_after(TaskCore& task, Duration timeout) {
  const TimePoint now =
      task.done() ? std::chrono::steady_clock::now() : task.owner().scheduler().now();
  return time_after(now, timeout);
}

void throw_result_taken(const TaskCore& task) {
  throw Exception({ErrorCode::kResultTaken,
                   "the result of " + name_of(task) + " was taken before; keep the first one"});
}

void throw_no_task() {
  throw Exception(
      {ErrorCode::kInvalidArgument, "this handle is empty: it has no task, or was moved from"});
}

bool WaitingCoroutine::arm() noexcept {
  Phase phase = kStarting;
  // acq_rel: pairs with end_wait() and stop().
  if (phase_.compare_exchange_strong(phase, kArmed, std::memory_order_acq_rel)) return true;
  if (phase == kStopped) {
    if (give_up()) {
      stopped_ = true;
      return go_on(/*inline_too=*/true);
    }
    // give_up() failed: end_wait() was called, or is about to be.
    if (phase_.compare_exchange_strong(phase, kArmed, std::memory_order_acq_rel)) return true;
  }
  return go_on(/*inline_too=*/true);
}

void WaitingCoroutine::end_wait() noexcept {
  Phase phase = phase_.load(std::memory_order_acquire);
  while (!phase_.compare_exchange_weak(phase, kOver, std::memory_order_acq_rel)) {
  }
  if (phase == kArmed) go_on(/*inline_too=*/false);
}

bool WaitingCoroutine::abandon() noexcept {
  if (coroutine_ == nullptr) return false;
  on_stop_.reset();
  const Phase phase = phase_.load(std::memory_order_acquire);
  if (phase == kStarting) return false;  // an exception keeps it from waiting
  KEYWAY_CHECK(phase == kArmed && give_up(),
               "a coroutine is destroyed that is about to go on, because its wait is over");
  return true;
}

void WaitingCoroutine::stop() noexcept {
  Phase phase = kStarting;
  if (phase_.compare_exchange_strong(phase, kStopped, std::memory_order_acq_rel)) return;
  if (phase != kArmed || !give_up()) return;
  stopped_ = true;
  phase_.store(kOver, std::memory_order_release);
  go_on(/*inline_too=*/false);
}

bool WaitingCoroutine::go_on(bool inline_too) noexcept {
  if (wait_ != nullptr) {
    wait_->end(*this);
  } else if (inline_too) {
    return false;
  } else {
    wake();
  }
  return true;
}

void WaitingCoroutine::wake() noexcept {
  if (context_ != nullptr) {
    resumption_.post(coroutine_, *context_);
  } else {
    resumption_.post(coroutine_, *scheduler_);
  }
}

void drop_unsubmitted(TaskCore& task) noexcept {
  task.operations().drop(task, nullptr);
  task.publish(TaskStatus::kRejected, TimePoint{});
}

std::exception_ptr wait_error(const TaskCore& task, TaskOwner::Waited waited) {
  const std::string name = name_of(task);
  switch (waited) {
    case TaskOwner::Waited::kTimedOut:
      return std::make_exception_ptr(
          TimeoutError(name + " was not done in time; it goes on, and can be waited for again"));
    default:
      return std::make_exception_ptr(CancelledError("the wait for " + name + " was stopped"));
  }
}

}  // namespace detail
}  // namespace keyway
