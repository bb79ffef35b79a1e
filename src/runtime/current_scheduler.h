// Sets Scheduler::current() of the calling thread for a scope.
#pragma once

#include <utility>

#include "keyway/scheduler.h"
#include "runtime/thread_context.h"

namespace keyway {

class CurrentScheduler {
 public:
  explicit CurrentScheduler(Scheduler* scheduler)
      : outer_(std::exchange(ThreadContext::here().scheduler, scheduler)) {}
  ~CurrentScheduler() { ThreadContext::here().scheduler = outer_; }
  CurrentScheduler(const CurrentScheduler&) = delete;
  CurrentScheduler& operator=(const CurrentScheduler&) = delete;

 private:
  Scheduler* const outer_;
};

}  // namespace keyway
