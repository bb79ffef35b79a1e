// The stack of operations that the calling thread runs, and their tasks. Waits and locks belong to
// the innermost one.
#pragma once

#include "keyway/detail/operation.h"
#include "runtime/thread_context.h"

namespace keyway::detail {

class CurrentTaskScope {
 public:
  // A plain task, or a coroutine until it has begun. `parent`: of one that its caller runs.
  // `passes_locks_on`: see Operation.
  explicit CurrentTaskScope(TaskCore* task, const Operation* parent = nullptr,
                            bool passes_locks_on = false)
      : own_(parent, task), operation_(&own_), outer_(ThreadContext::here().innermost_scope) {
    if (passes_locks_on) own_.set_passes_locks_on();
    ThreadContext::here().innermost_scope = this;
  }
  // A coroutine. REQUIRES: the operation is there as long as this, or until continue_as().
  explicit CurrentTaskScope(const Operation& operation)
      : operation_(&operation), outer_(ThreadContext::here().innermost_scope) {
    ThreadContext::here().innermost_scope = this;
  }
  ~CurrentTaskScope() {
    own_.pass_locks_on();
    ThreadContext::here().innermost_scope = outer_;
  }
  CurrentTaskScope(const CurrentTaskScope&) = delete;
  CurrentTaskScope& operator=(const CurrentTaskScope&) = delete;

  static const CurrentTaskScope* innermost() { return ThreadContext::here().innermost_scope; }
  const CurrentTaskScope* outer() const { return outer_; }
  TaskCore* task() const { return operation_->task(); }

  static const Operation& current() {
    const ThreadContext& here = ThreadContext::here();
    return here.innermost_scope != nullptr ? *here.innermost_scope->operation_ : outside(here);
  }
  // The operation of a coroutine that this thread resumed is about to be destroyed. The scope stays until the resumption
  // returns, and stands for the operation around it.
  static void leave(const Operation& operation) {
    const ThreadContext& here = ThreadContext::here();
    CurrentTaskScope* const scope = here.innermost_scope;
    if (scope == nullptr || scope->operation_ != &operation) return;
    scope->operation_ = scope->outer_ != nullptr ? scope->outer_->operation_ : &outside(here);
  }
  // The running coroutine resumes the coroutine `operation`, of which it was a part. If a foreign
  // awaitable resumed it inside another task, the scope of that task stays as it is.
  static void continue_as(const Operation& operation) {
    CurrentTaskScope* innermost = ThreadContext::here().innermost_scope;
    if (innermost == nullptr || !innermost->operation_->is_part_of(operation)) return;
    innermost->operation_ = &operation;
  }

 private:
  static const Operation& outside(const ThreadContext& here) {
    return here.outside != nullptr ? *here.outside : thread_;
  }

  static constinit thread_local Operation thread_;

  TaskOperation own_;
  const Operation* operation_;
  CurrentTaskScope* const outer_;
};

}  // namespace keyway::detail
