#include "keyway/detail/task_core.h"

#include "base/futex.h"
#include "base/quoted.h"
#include "keyway/detail/block_pool.h"

namespace keyway::detail {

void TaskCore::publish(TaskStatus status, TimePoint ended) noexcept {
  place_.next = reinterpret_cast<Waiter*>(ended.time_since_epoch().count());
  const std::uint32_t result = kDone | static_cast<std::uint32_t>(status) << kStatusShift;
  std::uint32_t state = state_.load(std::memory_order_relaxed);
  // One step does both, as long as nobody waits: the task is done, and the runner lets go.
  // acq_rel: the result is released to done(); who frees it has acquired what the other wrote.
  while ((state & (kSleepers | kContinuation)) == 0) {
    if (state_.compare_exchange_weak(state, (state | result) - 1, std::memory_order_acq_rel,
                                     std::memory_order_relaxed)) {
      if ((state & kReferences) == 1) free(state | result);
      return;
    }
  }
  // Somebody waits: hold on until all are told.
  state = state_.fetch_or(result, std::memory_order_acq_rel);
  if ((state & kSleepers) != 0) futex_wake_all(state_);
  if ((state & kContinuation) != 0) continuation_->task_done();
  release();
}

bool TaskCore::set_continuation(Continuation& continuation) noexcept {
  continuation_ = &continuation;
  // acq_rel: publish() sees continuation_; the caller sees the result.
  return (state_.fetch_or(kContinuation, std::memory_order_acq_rel) & kDone) == 0;
}

bool TaskCore::remove_continuation() noexcept {
  std::uint32_t state = state_.load(std::memory_order_relaxed);
  do {
    if ((state & kDone) != 0) return false;
    // acq_rel: publish() either sees that the continuation is removed, or has called it.
  } while (!state_.compare_exchange_weak(state, state & ~(kContinuation | kClaimed),
                                         std::memory_order_acq_rel, std::memory_order_relaxed));
  return true;
}

// Changes the futex of the waiters, so that a waiter which is about to sleep sees a stop request.
void TaskCore::kick() noexcept {
  state_.fetch_add(kKick, std::memory_order_relaxed);
  futex_wake_all(state_);
}

void TaskCore::release() noexcept {
  // acq_rel: see publish().
  const std::uint32_t state = state_.fetch_sub(1, std::memory_order_acq_rel);
  if ((state & kReferences) == 1) free(state);
}

void TaskCore::free(std::uint32_t state) noexcept {
  const bool has_extras = (state & kExtras) != 0;
  const std::size_t size_bytes =
      block_bytes(*operations_, std::size_t{key_size_} + id_size_, has_extras);
  if (has_extras) std::destroy_at(&extras());
  operations_->destroy(*this, static_cast<TaskStatus>((state >> kStatusShift) & kStatusMask));
  deallocate_block(this, size_bytes);
}

void ExpiryTimer::fire() { task_.owner().expire(task_); }

std::string name_of_task(std::string_view group_key, std::string_view task_id) {
  const std::string name = task_id.empty() ? "a task" : "task " + quoted(task_id);
  return name + " of group " + quoted(group_key);
}

std::string TaskOwner::name_of(const TaskCore& task) const {
  return name_of_task(task.group_key(), task.task_id());
}

std::string name_of(const TaskCore& task) {
  // Once the task is done, its owner may be destroyed.
  if (!task.done()) return task.owner().name_of(task);
  return name_of_task(task.group_key(), task.task_id());
}

Error awaited_already(const TaskCore& task) {
  return {ErrorCode::kResultTaken,
          name_of(task) +
              " is awaited already, and its result can be taken only once; await it in "
              "one place, and share the result from there"};
}

}  // namespace keyway::detail
