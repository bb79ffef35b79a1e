// Watches tasks go by.
//
//   class Gauge final : public TaskLifecycleListener {
//     void on_started(std::string_view, std::string_view) override { ++running_; }
//     void on_completed(std::string_view, std::string_view, const TaskOutcome& outcome) override {
//       if (outcome.ran) --running_;
//       if (const Page* page = outcome.value_if<Page>()) bytes_ += page->size();
//     }
//     ...
#pragma once

#include "keyway/detail/require_cpp20.h"

#include <exception>
#include <string_view>
#include <type_traits>

#include "keyway/detail/kept_value.h"
#include "keyway/rejection_reason.h"
#include "keyway/scheduler.h"
#include "keyway/task_status.h"

namespace keyway {

// The outcome of an ended task, for a listener: a GroupResult without the key and the id.
struct TaskOutcome {
  TaskStatus status{};
  std::exception_ptr error{};
  TimePoint started{};
  TimePoint ended{};
  bool ran = false;          // on_started() was called before
  detail::AnyValue value{};  // ask value_if()

  // The value of a task that succeeded, if it is of type T; else null. T is the type of the TaskHandle<T>;
  // for a task that returned a reference, value_if<T&>() points to what it refers to. The pointer is valid
  // during on_completed().
  template <class T>
    requires(!std::is_void_v<T>)
  auto value_if() const {
    using KeptType = typename detail::Kept<T>::type;
    const auto* kept =
        value.type == &detail::kValueType<T> ? static_cast<const KeptType*>(value.kept) : nullptr;
    if constexpr (std::is_reference_v<T>) {
      return kept != nullptr ? *kept : nullptr;
    } else {
      return kept;
    }
  }
};

// For every task, in this order, each call after the one before it has returned:
//   on_submitted, on_started, on_completed    a task that ran
//   on_submitted, on_completed                cancelled or expired before it began; or it shared the result
//                                             of another task (Conflation::kShareResult)
//   on_submitted, on_rejected                 rejected, or ended by a shutdown before it began
//
// The calls come before the handle shows the result, with no lock held, and never on a timer
// thread. When on_completed() or on_rejected() is called, the task has given its permits back and
// the next task can start. So the listener may submit, wait for other tasks, cancel, drain and shut
// down. A wait for its own task, or for a task that waits for it, is refused (kWaitCycle).
// Exceptions of a listener are ignored.
//
// There is no order between the calls of different tasks. on_completed() comes after the task has
// given its permits back, so the on_started() of the next task may come before it, and a count of
// started and not completed tasks, as above, may exceed the limit for a moment. It never falls
// below zero.
//
// Thread safety: an implementation must bear calls from many threads at once.
class TaskLifecycleListener {
 public:
  virtual ~TaskLifecycleListener() = default;

  virtual void on_submitted(std::string_view /*group_key*/, std::string_view /*task_id*/) {}
  virtual void on_started(std::string_view /*group_key*/, std::string_view /*task_id*/) {}
  virtual void on_completed(std::string_view /*group_key*/, std::string_view /*task_id*/,
                            const TaskOutcome& /*outcome*/) {}
  virtual void on_rejected(std::string_view /*group_key*/, std::string_view /*task_id*/,
                           RejectionReason /*reason*/) {}
};

}  // namespace keyway
