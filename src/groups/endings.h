// A queue of ended tasks whose listeners and handles have not been notified: tasks of a shutdown,
// expired tasks, and tasks that share the result of another one.
//
// A notification runs user code, which may block, and may wait for another task of the queue. So
// the thread that adds the tasks notifies for one after the other, and the process's background
// pool helps: while one notification blocks, another thread goes on. The scheduler's own threads
// may all be blocked or busy, so they are not enough; they help with tasks that a timer has ended,
// because the timer thread must not run user code.
//
// Thread safety: every method from any thread.
// Lifetime: outlives its posted helpers; the engine counts each of them as a use.
#pragma once

#include <deque>
#include <exception>
#include <vector>

#include "base/mutex.h"
#include "keyway/detail/task_core.h"
#include "keyway/scheduler.h"
#include "keyway/task_listener.h"

namespace keyway {

struct Ending {
  detail::TaskCore* task = nullptr;  // with the runner's reference
  TaskStatus status{};
  TimePoint ended{};
  bool ran = true;
  RejectionReason reason{};
  // The task never ran: its callable is destroyed, and `error` stored.
  bool has_callable = false;
  std::exception_ptr error{};
  // Not an end but a stop request, which runs the user's stop callbacks. The entry owns a reference
  // to the task.
  bool asks_to_stop = false;
};

class Endings {
 public:
  class Teller {
   public:
    // Destroys the callable, calls the listener, publishes the result. Called under no lock.
    virtual void tell(Ending& ending) noexcept = 0;
    // A helper was posted.
    virtual void begin_use() = 0;
    // The helper runs: tells `ending`, if it has a task, and ends the use. A listener that drains
    // there does not wait for this use.
    virtual void tell_posted(Ending& ending) noexcept = 0;

   protected:
    ~Teller() = default;
  };

  Endings(Teller& teller, Scheduler& scheduler) : teller_(teller), scheduler_(scheduler) {}
  Endings(const Endings&) = delete;
  Endings& operator=(const Endings&) = delete;

  // Returns when every ending of the queue is told, or other threads are telling the last ones.
  void tell(std::vector<Ending> endings) KEYWAY_EXCLUDES(mutex_);
  // The same in two steps. Between them the caller may run a listener that waits for these tasks,
  // because helpers tell them meanwhile.
  void add(std::vector<Ending> endings) KEYWAY_EXCLUDES(mutex_);
  void tell_added() KEYWAY_EXCLUDES(mutex_);
  // Leaves the ending to helpers. For the timer thread.
  void tell_later(Ending ending) KEYWAY_EXCLUDES(mutex_);

 private:
  // Tells one ending, on a thread of the scheduler or of the background pool.
  struct Helper final : Runnable {
    explicit Helper(Endings& all) : endings(all) {}
    void run(Turn&) override { endings.help(*this); }
    Endings& endings;
    bool posted = false;  // guarded by the mutex
  };

  void help(Helper& helper) KEYWAY_EXCLUDES(mutex_);
  // Takes the next ending, and posts `helper` if there are more. Without a task if the queue is
  // empty.
  Ending next(Helper& helper) KEYWAY_EXCLUDES(mutex_);
  void post_if_needed(Helper& helper) KEYWAY_EXCLUDES(mutex_);
  // The helper that runs even if all threads of the scheduler are blocked. A scheduler without a
  // background runs every item on a stack of its own.
  Helper& sure_helper() {
    return scheduler_.background() != nullptr ? in_background_ : on_scheduler_;
  }

  Teller& teller_;
  Scheduler& scheduler_;
  Mutex<LockRank::kLeaf> mutex_;
  std::deque<Ending> endings_ KEYWAY_GUARDED_BY(mutex_);
  Helper on_scheduler_{*this};
  Helper in_background_{*this};
};

}  // namespace keyway
