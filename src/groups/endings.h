// Tasks that have ended and whose users have not heard of it yet: tasks that were rejected together, that expired, or that
// ended with another one.
//
// What their users hear may take long, and may wait for another of these tasks. So the thread that adds them tells
// their users one by one, and a posted turn lets the scheduler's threads help it: while one of them is held up, another
// goes on.
//
// Thread safety: every method from any thread.
// Lifetime: until idle; the engine counts it as a use.
#pragma once

#include <deque>
#include <exception>
#include <vector>

#include "base/mutex.h"
#include "keyway/detail/task_core.h"
#include "keyway/scheduler.h"

namespace keyway {

struct Ending {
  detail::TaskCore* task = nullptr;  // with the runner's reference
  TaskStatus status{};
  TimePoint ended{};
  // Of a task that did not run: the callable is dropped, and this error kept.
  bool unrun = false;
  std::exception_ptr error{};
};

class Endings final : private Runnable {
 public:
  class Teller {
   public:
    // Drops the callable, tells listeners, publishes the result. Under no lock.
    virtual void tell(Ending& ending) noexcept = 0;
    // A turn of the endings was posted, or has run.
    virtual void begin_use() = 0;
    virtual void end_use() = 0;

   protected:
    ~Teller() = default;
  };

  Endings(Teller& teller, Scheduler& scheduler) : teller_(teller), scheduler_(scheduler) {}

  // Tells the users of all of them before it returns, unless a thread of the scheduler's is just telling some.
  void tell(std::vector<Ending> endings) KEYWAY_EXCLUDES(mutex_);
  // Leaves it to the scheduler's threads: for the timer thread.
  void tell_later(Ending ending) KEYWAY_EXCLUDES(mutex_);

 private:
  void run(Turn& turn) override;
  // Takes the next one, and has a turn posted if there are more. Null task: there is none.
  Ending next() KEYWAY_EXCLUDES(mutex_);
  void post_if_needed() KEYWAY_EXCLUDES(mutex_);

  Teller& teller_;
  Scheduler& scheduler_;
  Mutex<LockRank::kLeaf> mutex_;
  std::deque<Ending> endings_ KEYWAY_GUARDED_BY(mutex_);
  bool posted_ KEYWAY_GUARDED_BY(mutex_) = false;
};

}  // namespace keyway
