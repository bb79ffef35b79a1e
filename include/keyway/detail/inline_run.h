// Runs a coroutine to its end on the calling thread, which sleeps while the coroutine is suspended.
// For a coroutine that is a part of the calling task: it needs no other thread.
//
//   InlineRun run(timers);
//   const TaskContext context = ...;              // context.scheduler is &run
//   run.begin(context.operation);
//   TaskAccess::start(task, context, run);
//   run.wait();
//
// Thread safety: post() and done() from any thread; the rest from the thread that made it.
#pragma once

#include "keyway/detail/require_cpp20.h"

#include <coroutine>
#include <memory>

#include "keyway/detail/task_promise.h"
#include "keyway/scheduler.h"

namespace keyway::detail {

class InlineRun final : public Scheduler, public Completion {
 public:
  // `timers`: a scheduler that outlives it.
  explicit InlineRun(Scheduler& timers);
  ~InlineRun() override;
  InlineRun(const InlineRun&) = delete;
  InlineRun& operator=(const InlineRun&) = delete;

  // Links the calling thread's wait for `part`, the coroutine's operation, into the WaitGraph. To
  // be called before the coroutine starts, so that the checks of its waits know that it needs this
  // thread.
  void begin(const Operation& part);
  // Returns when the coroutine has ended.
  void wait();

  void post(Runnable& runnable) override;
  TimePoint now() const override { return timers_.now(); }
  void add_timer(Timer& timer, TimePoint deadline) override { timers_.add_timer(timer, deadline); }
  bool cancel_timer(Timer& timer) override { return timers_.cancel_timer(timer); }
  bool wait_for_turns_in_progress(const TimePoint*) override { return true; }

  std::coroutine_handle<> done() noexcept override;

 private:
  struct State;
  void sleep_until_posted();

  Scheduler& timers_;
  // Shared with running calls of post(): the item may run, and this object be destroyed, before
  // post() returns.
  const std::shared_ptr<State> state_;
};

}  // namespace keyway::detail
