// A scheduler with one thread, the same for ever: for work that must stay where its connection is.
// ThreadPool is the sibling for work that may run anywhere: its threads come and go.
//
// Guarantees:
//   (1) Everything that is posted runs on the one thread, in the order of posting; no wake-up is lost.
//   (2) While a task waits on the thread, nothing else runs there. The WaitGraph refuses a wait for work
//       of the same thread (ErrorCode::kNoThread).
//
// Thread safety: every method from any thread; end_thread() from one at a time.
// Lifetime: the destructor runs what is still posted, then joins. `timers` outlives it.
#pragma once

#include <cstdint>
#include <thread>

#include "keyway/detail/atomic.h"
#include "keyway/scheduler.h"
#include "lanes/ready_queue.h"
#include "runtime/posts_in_progress.h"
#include "runtime/service_thread.h"
#include "runtime/turn_watch.h"
#include "serial/worker_sleep.h"

namespace keyway {

class WorkerThread final : public Scheduler {
 public:
  // `timers`: fires timers for several of them, also while their threads are at work.
  explicit WorkerThread(ServiceThread& timers) : timers_(timers), thread_([this] { run(); }) {}
  ~WorkerThread() override {
    end_thread();
    posts_.wait_for_all();
  }

  // What the destructor does; what is posted afterwards never runs. REQUIRES: not on its own thread.
  void end_thread();

  void post(Runnable& runnable) override {
    ready_.push(runnable);
    if (this_thread_ != this) sleep_.wake();
  }
  void post_from_outside(Runnable& runnable) override;
  TimePoint now() const override { return std::chrono::steady_clock::now(); }
  void add_timer(Timer& timer, TimePoint deadline) override { timers_.add_timer(timer, deadline); }
  bool cancel_timer(Timer& timer) override { return timers_.cancel_timer(timer); }
  bool wait_for_turns_in_progress(const TimePoint* deadline = nullptr) override;
  void begin_blocking() override;
  void end_blocking() override;
  std::size_t max_threads() const override { return 1; }
  const char* how_to_get_more_threads() const override {
    return "choose Routing::kPerKey: a sticky worker has one thread";
  }

 private:
  static constinit thread_local const WorkerThread* this_thread_;

  void run();

  ServiceThread& timers_;
  ReadyQueue ready_;
  PostsInProgress posts_;  // by other threads
  WorkerSleep sleep_;
  // Odd while a turn is in progress. Written by the thread alone.
  detail::Atomic<std::uint64_t> turn_edges_{0};
  detail::Atomic<std::uint32_t> blocking_depth_{0};
  TurnWatch turn_watch_;
  std::thread thread_;
};

}  // namespace keyway
