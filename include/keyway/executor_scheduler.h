// Runs Keyway's work on threads that are not Keyway's: anything with execute(f).
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "keyway/scheduler.h"

namespace keyway {

// Each ready item becomes one call of `execute`, which must run its argument later, exactly once, on
// any thread. Timers fire on a thread of the scheduler's own. The destructor waits until every
// argument has run.
std::unique_ptr<Scheduler> make_executor_scheduler(
    std::function<void(std::function<void()>)> execute);

template <class Executor>
  requires requires(Executor& executor, void (*f)()) { executor.execute(f); }
std::unique_ptr<Scheduler> make_executor_scheduler(Executor& executor) {
  return make_executor_scheduler(std::function<void(std::function<void()>)>(
      [&executor](std::function<void()> f) { executor.execute(std::move(f)); }));
}

}  // namespace keyway
