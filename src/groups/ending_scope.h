// The scope of user code that is told of a task which does not run: its listener, its rejection
// handler, a destructor of its captures.
//
// A wait in that code belongs to the task, because the task does not end before it. So the WaitGraph
// refuses a wait for the task itself, or for a task that waits for it.
#pragma once

#include "keyway/detail/task_core.h"
#include "runtime/current_task.h"

namespace keyway {

class EndingScope {
 public:
  explicit EndingScope(detail::TaskCore& task) : scope_(&task, &detail::Operation::current()) {
    task.set_ending(true);
  }

 private:
  const detail::CurrentTaskScope scope_;
};

}  // namespace keyway
