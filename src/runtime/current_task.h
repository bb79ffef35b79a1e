// The stack of operations that the calling thread runs, and their tasks. Waits and locks belong to
// the innermost one.
#pragma once

#include "keyway/detail/operation.h"
#include "runtime/thread_context.h"

namespace keyway::detail {

class CurrentTaskScope {
 public:
  // A plain task, or a coroutine until it has begun. `parent`: of one that its caller runs.
  explicit CurrentTaskScope(TaskCore* task, const Operation* parent = nullptr)
      : own_(parent, task), operation_(&own_), outer_(ThreadContext::here().innermost_scope) {
    ThreadContext::here().innermost_scope = this;
  }
  // A coroutine. REQUIRES: the operation is there as long as this, or until continue_as().
  explicit CurrentTaskScope(const Operation& operation)
      : operation_(&operation), outer_(ThreadContext::here().innermost_scope) {
    ThreadContext::here().innermost_scope = this;
  }
  ~CurrentTaskScope() { ThreadContext::here().innermost_scope = outer_; }
  CurrentTaskScope(const CurrentTaskScope&) = delete;
  CurrentTaskScope& operator=(const CurrentTaskScope&) = delete;

  static const CurrentTaskScope* innermost() { return ThreadContext::here().innermost_scope; }
  const CurrentTaskScope* outer() const { return outer_; }
  TaskCore* task() const { return operation_->task(); }

  static const Operation& current() {
    const ThreadContext& here = ThreadContext::here();
    if (here.innermost_scope != nullptr) return *here.innermost_scope->operation_;
    return here.outside != nullptr ? *here.outside : thread_;
  }
  // The running coroutine resumes the coroutine `operation`, of which it was a part. If a foreign
  // awaitable resumed it inside another task, the scope of that task stays as it is.
  static void continue_as(const Operation& operation) {
    CurrentTaskScope* innermost = ThreadContext::here().innermost_scope;
    if (innermost == nullptr || !innermost->operation_->is_part_of(operation)) return;
    innermost->operation_ = &operation;
  }

 private:
  static constinit thread_local Operation thread_;

  const TaskOperation own_;
  const Operation* operation_;
  CurrentTaskScope* const outer_;
};

}  // namespace keyway::detail
