// The one thread of a scheduler that runs no tasks: it fires timers, and while it is asked to, it
// calls a tick every millisecond.
//
// Thread safety: every method from any thread.
// Lifetime: the destructor joins; no timer fires after it.
#pragma once

#include <functional>
#include <thread>

#include "base/mutex.h"
#include "keyway/detail/atomic.h"
#include "runtime/timer_queue.h"

namespace keyway {

class ServiceThread {
 public:
  // `tick` says whether it wants to be called again; when it does not, it sleeps until
  // want_ticks(). `still_wanted` is asked once more after the decision to sleep was made public.
  ServiceThread(std::function<bool()> tick, std::function<bool()> still_wanted);
  ~ServiceThread();
  ServiceThread(const ServiceThread&) = delete;
  ServiceThread& operator=(const ServiceThread&) = delete;

  void add_timer(Timer& timer, TimePoint deadline);
  bool cancel_timer(Timer& timer) { return timers_.cancel(timer); }

  // Whether the calling thread is this service thread.
  bool is_this_thread() const { return std::this_thread::get_id() == thread_.get_id(); }

  // Joins the thread: no timer fires any more. REQUIRES: one thread at a time.
  void end_thread();

  // One load when it ticks already.
  void want_ticks() {
    // seq_cst: pairs with run(), which publishes that it sleeps before it asks still_wanted().
    if (!ticking_.load(std::memory_order_seq_cst)) start_ticking();
  }

 private:
  void run();
  void start_ticking();
  bool go_on_ticking();

  const std::function<bool()> tick_;
  const std::function<bool()> still_wanted_;
  TimerQueue timers_;
  detail::Atomic<bool> ticking_{false};

  Mutex<LockRank::kServiceThread> mutex_;
  CondVar changed_;
  bool look_again_ KEYWAY_GUARDED_BY(mutex_) = false;
  bool stopping_ KEYWAY_GUARDED_BY(mutex_) = false;

  std::thread thread_;
};

}  // namespace keyway
