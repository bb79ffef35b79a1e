// Which operation runs on this thread just now, innermost first, and with it which task: what a wait inside a
// task, and a lock, must know.
#pragma once

#include "keyway/detail/operation.h"

namespace keyway::detail {

class CurrentTaskScope {
 public:
  // A plain task, or a coroutine until it has begun. `parent`: of one that its caller runs.
  explicit CurrentTaskScope(TaskCore* task, const Operation* parent = nullptr)
      : own_(parent, task), operation_(&own_), outer_(innermost_) {
    innermost_ = this;
  }
  // A coroutine. REQUIRES: the operation is there as long as this, or until continue_as().
  explicit CurrentTaskScope(const Operation& operation)
      : operation_(&operation), outer_(innermost_) {
    innermost_ = this;
  }
  ~CurrentTaskScope() { innermost_ = outer_; }
  CurrentTaskScope(const CurrentTaskScope&) = delete;
  CurrentTaskScope& operator=(const CurrentTaskScope&) = delete;

  static const CurrentTaskScope* innermost() { return innermost_; }
  const CurrentTaskScope* outer() const { return outer_; }
  TaskCore* task() const { return operation_->task(); }

  static const Operation& current() {
    return innermost_ != nullptr ? *innermost_->operation_ : thread_;
  }
  // A coroutine resumes another one, of which it was a part.
  static void continue_as(const Operation& operation) {
    if (innermost_ != nullptr) innermost_->operation_ = &operation;
  }

 private:
  static inline constinit thread_local CurrentTaskScope* innermost_ = nullptr;
  static inline constinit thread_local Operation thread_{};

  const TaskOperation own_;
  const Operation* operation_;
  CurrentTaskScope* const outer_;
};

}  // namespace keyway::detail
