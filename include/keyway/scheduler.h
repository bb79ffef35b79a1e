// The interface between work and threads: posts, timers, and regions in which a thread blocks.
//
// Keyway's own threads (ThreadPool), a caller's executor (ExecutorScheduler) and the seeded
// simulation (testing::SimScheduler) are three Schedulers; everything above is written against
// this page alone, so the same code runs under all of them.
#pragma once

#include "keyway/detail/require_cpp20.h"

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
  kLookAgain,  // the word may have changed
  kTimedOut,
  kStuck,  // a driven scheduler has nothing left to run, so the word will never change
};

// Users may implement it for their own threads. The scheduler calls run_posted() for each posted
// Runnable, on one of its threads. run_posted() sets current(), by which a wait knows that it
// blocks a thread of the scheduler. If a scheduler calls Runnable::run() directly, a wait that
// could never end hangs instead of being refused.
//
//   void MyThread::loop() {
//     while (Runnable* next = take()) run_posted(*next);
//   }
//
// A scheduler with a bounded number of threads must also override max_threads().
//
// Keyway calls now(), add_timer(), max_threads() and how_to_get_more_threads() also under locks of its own. They must return
// at once, and call nothing of Keyway but methods of another Scheduler.
//
// Thread safety: every method from any thread, unless the implementation says otherwise.
// Lifetime: outlives everything that was posted to it.
class Scheduler {
 public:
  virtual ~Scheduler() = default;

  // Runs `runnable` soon, once, on one of the scheduler's threads; in the order of posting as
  // far as there is one thread.
  virtual void post(Runnable& runnable) = 0;
  // The same for a thread that only wakes work and does not keep the scheduler alive. `runnable`
  // may run, and may be the scheduler's last work, before this call has returned, so the destructor
  // must wait for such calls.
  virtual void post_from_outside(Runnable& runnable) { post(runnable); }

  virtual TimePoint now() const = 0;

  // Fires once, not before `deadline`. REQUIRES: the timer is not waiting already.
  virtual void add_timer(Timer& timer, TimePoint deadline) = 0;
  // True if the timer was queued and will not fire; false if it has fired already. When this returns,
  // the timer is not queued and fire() is not running, also if fire() has added the timer again
  // meanwhile. Called from within fire(), it does not wait for that call.
  virtual bool cancel_timer(Timer& timer) = 0;

  // A blocking region: the calling thread, one of this scheduler's, is about to wait for other
  // work. The scheduler may start another thread meanwhile. Each begin has its end on the same
  // thread.
  virtual void begin_blocking() {}
  virtual void end_blocking() {}

  // The scheduler whose Runnable the calling thread runs; null if it runs none.
  static Scheduler* current();

  // ---- For Keyway's own waits and shutdowns. Users implement these, but need not call them.

  // Waits until every run() that was in progress at the call has returned or is inside a blocking
  // region, except one on the calling thread. False if the deadline passed first.
  virtual bool wait_for_turns_in_progress(const TimePoint* deadline = nullptr) = 0;
  // Sleeps while `word` holds `expected`. REQUIRES: current() is this scheduler, or current() is
  // null and this scheduler is driven.
  virtual Slept sleep(const detail::Atomic<std::uint32_t>& word, std::uint32_t expected,
                      const TimePoint* deadline);
  // The maximum number of threads. Keyway refuses a wait that would leave no thread for its target.
  // A scheduler with a bounded number of threads must override it; otherwise such a wait hangs.
  static constexpr std::size_t kUnlimitedThreads = static_cast<std::size_t>(-1);
  virtual std::size_t max_threads() const { return kUnlimitedThreads; }
  // What the error of such a wait tells the user to do; it ends the message, often after "wait by co_await, or ".
  virtual const char* how_to_get_more_threads() const { return "give the scheduler more threads"; }
  // A driven scheduler has no threads: it runs its work on a caller that sleeps in it.
  virtual bool is_driven() const { return false; }

  // Runs code that must neither wait for a free thread of this scheduler nor delay its timers.
  // Null: there is none.
  virtual Scheduler* background();

  // A scheduler that does not know when it is idle tells nobody. After remove_idle_listener() has
  // returned, the listener is not called any more.
  virtual void add_idle_listener(IdleListener&) {}
  virtual void remove_idle_listener(IdleListener&) {}

 protected:
  // Runs `runnable` on the calling thread with current() set to this scheduler; then posts
  // Turn::again, if it is set.
  void run_posted(Runnable& runnable);
};

}  // namespace keyway
