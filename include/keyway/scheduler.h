// The seam between what is to run and who runs it: work, timers, and regions in which a thread blocks.
//
// Keyway's own threads (ThreadPool), a caller's executor (ExecutorScheduler) and the seeded
// simulation (testing::SimScheduler) are three Schedulers; everything above is written against
// this page alone, so the same code runs under all of them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "keyway/detail/atomic.h"

namespace keyway {

using TimePoint = std::chrono::steady_clock::time_point;
using Duration = std::chrono::steady_clock::duration;

class IdleListener;
class Runnable;
class TickClock;

// What a Runnable is told when it runs, and what it says when it is done.
struct Turn {
  TickClock* clock = nullptr;  // the thread's own cheap clock; null: ask the scheduler
  // To be posted once run() has returned. The thread that ran it comes for more work itself, so
  // nobody need be woken.
  Runnable* again = nullptr;
};

// Something that can stand in a ready queue: a lane whose turn it is, a coroutine to resume.
// It may be posted again as soon as run() has begun.
class Runnable {
 public:
  virtual void run(Turn& turn) = 0;

  Runnable() = default;
  Runnable(const Runnable&) = delete;
  Runnable& operator=(const Runnable&) = delete;

 protected:
  ~Runnable() = default;

 private:
  friend class ReadyQueue;
  detail::Atomic<Runnable*> next_ready_{nullptr};
};

// Something that happens at a time. fire() runs on the scheduler's service thread: it must be
// short and must not throw; usually it posts a Runnable.
class Timer {
 public:
  virtual void fire() = 0;

  Timer() = default;
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

 protected:
  ~Timer() = default;

 private:
  friend class TimerQueue;
  static constexpr std::size_t kNotQueued = static_cast<std::size_t>(-1);
  TimePoint deadline_{};
  std::size_t heap_index_ = kNotQueued;
};

// How Scheduler::sleep() ended.
enum class Slept {
  kLookAgain,  // the word has changed, or may have
  kTimedOut,
  kStuck,  // a driven scheduler has nothing left to run, so the word will never change
};

// Users may implement it, for threads of their own. What is posted is run by run_posted(), on one of the scheduler's
// threads. That call sets current(), by which waits recognise a thread of the scheduler's. A scheduler that calls
// Runnable::run() itself does not set it, and a task that waits for a task hangs instead of being refused.
//
//   void MyThread::loop() {
//     while (Runnable* next = take()) run_posted(*next);
//   }
//
// A scheduler with a bounded number of threads must also override max_threads().
//
// Thread safety: every method from any thread, unless the implementation says otherwise.
// Lifetime: outlives everything that was posted to it.
class Scheduler {
 public:
  virtual ~Scheduler() = default;

  // Runs `runnable` soon, once, on one of the scheduler's threads; in the order of posting as
  // far as there is one thread.
  virtual void post(Runnable& runnable) = 0;
  // The same for a thread of which the scheduler's owner may not know, because it only wakes what waits. What it posts may
  // run, and be the last work of the scheduler, before this call has returned: the destructor must wait for that.
  virtual void post_from_outside(Runnable& runnable) { post(runnable); }

  virtual TimePoint now() const = 0;

  // Fires once, not before `deadline`. REQUIRES: the timer is not waiting already.
  virtual void add_timer(Timer& timer, TimePoint deadline) = 0;
  // True if the timer will not fire. False if it has fired already. Either way fire() is not
  // running any more when this returns, unless this is called from within it.
  virtual bool cancel_timer(Timer& timer) = 0;

  // A blocking region: the calling thread, one of this scheduler's, is about to wait for other
  // work. The scheduler may start another thread meanwhile. Calls pair up, on one thread.
  virtual void begin_blocking() {}
  virtual void end_blocking() {}

  // The scheduler whose Runnable the calling thread runs; null if it runs none.
  static Scheduler* current();

  // ---- What Keyway's own waits and shutdowns need of a scheduler. Users implement it, but need not call it.

  // Waits until every run() that was in progress at the call has returned, except one on the
  // calling thread and those that are inside a blocking region. False if the deadline came first.
  virtual bool wait_for_turns_in_progress(const TimePoint* deadline = nullptr) = 0;
  // Sleeps while `word` holds `expected`. REQUIRES: current() is this scheduler; or that is null, and
  // the scheduler is driven.
  virtual Slept sleep(const detail::Atomic<std::uint32_t>& word, std::uint32_t expected,
                      const TimePoint* deadline);
  // The maximum number of threads. A wait that would leave no thread for the work it waits for is refused. A
  // scheduler with a bounded number of threads must override it: otherwise such a wait is not refused, and hangs.
  static constexpr std::size_t kUnlimitedThreads = static_cast<std::size_t>(-1);
  virtual std::size_t max_threads() const { return kUnlimitedThreads; }
  // A driven scheduler has no threads of its own: it works while its caller sleeps in it.
  virtual bool is_driven() const { return false; }

  // Where code runs that must not wait until a thread of this scheduler is free, nor hold up its timers. Null: there
  // is no such place.
  virtual Scheduler* background();

  // A scheduler that does not know when it is idle tells nobody. After remove_idle_listener() has
  // returned, the listener is not called any more.
  virtual void add_idle_listener(IdleListener&) {}
  virtual void remove_idle_listener(IdleListener&) {}

 protected:
  // Runs what was posted, on the calling thread, as this scheduler; then posts what it asks to be posted again.
  void run_posted(Runnable& runnable);
};

}  // namespace keyway
