// Tasks that have ended and whose users have not heard of it yet: tasks that were rejected together, that expired, or that
// ended with another one.
//
// What their users do may take long, and may wait for another of these tasks. So the thread that adds them tells
// their users one by one, and the process's background pool helps it: while one thread is held up, another goes on. The
// scheduler's own threads would not do, since all of them may be blocked or busy with tasks. They help, too, if a timer
// has ended the task, since the timer's thread must not tell anybody itself.
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
#include "keyway/task_listener.h"

namespace keyway {

struct Ending {
  detail::TaskCore* task = nullptr;  // with the runner's reference
  TaskStatus status{};
  TimePoint ended{};
  bool ran = true;
  RejectionReason reason{};
  // Its callable is still there: it is dropped, and this error kept.
  bool has_callable = false;
  std::exception_ptr error{};
  // Not an end: the task, with a reference of this object's, is asked to stop, which runs the user's stop callbacks.
  bool asks_to_stop = false;
};

class Endings {
 public:
  class Teller {
   public:
    // Drops the callable, tells listeners, publishes the result. Under no lock.
    virtual void tell(Ending& ending) noexcept = 0;
    // A turn of the endings was posted.
    virtual void begin_use() = 0;
    // It runs: tells, if there is still something to tell, and ends the use. A listener that drains there does not wait
    // for its own turn.
    virtual void tell_posted(Ending& ending) noexcept = 0;

   protected:
    ~Teller() = default;
  };

  Endings(Teller& teller, Scheduler& scheduler) : teller_(teller), scheduler_(scheduler) {}
  Endings(const Endings&) = delete;
  Endings& operator=(const Endings&) = delete;

  // Tells the users of all of them before it returns, unless another thread is just telling some.
  void tell(std::vector<Ending> endings) KEYWAY_EXCLUDES(mutex_);
  // The same in two steps, for a caller that tells users of another task in between. They may wait for these: other threads
  // tell them meanwhile.
  void add(std::vector<Ending> endings) KEYWAY_EXCLUDES(mutex_);
  void tell_added() KEYWAY_EXCLUDES(mutex_);
  // Leaves it to other threads: for the timer thread.
  void tell_later(Ending ending) KEYWAY_EXCLUDES(mutex_);

 private:
  // Tells the users of one task, on a thread of `scheduler`.
  struct Helper final : Runnable {
    explicit Helper(Endings& all) : endings(all) {}
    void run(Turn&) override { endings.help(*this); }
    Endings& endings;
    bool posted = false;  // guarded by the mutex
  };

  void help(Helper& helper) KEYWAY_EXCLUDES(mutex_);
  // Takes the next one, and has a helper posted if there are more. Null task: there is none.
  Ending next(Helper& helper) KEYWAY_EXCLUDES(mutex_);
  void post_if_needed(Helper& helper) KEYWAY_EXCLUDES(mutex_);
  // On a thread that is there even if the scheduler's are blocked. A scheduler without a background runs every item on a
  // stack of its own.
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
