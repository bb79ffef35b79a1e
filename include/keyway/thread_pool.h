// Keyway's own threads: as many as there are cores, more while some of them are blocked.
//
//   ThreadPool pool;                                  // or share one between several executors
//   GroupExecutor executor({...}, pool);
//   pool.execute([] { compact(); });                  // or work without a key
//
// Guarantees:
//   (1) What is posted runs, in order of posting as far as one thread is concerned; no wake-up is
//       lost.
//   (2) The pool grows only when work is ready and threads are blocked, that is: sleep in the
//       kernel inside a task. CPU-bound tasks never make it grow.
//   (3) Threads beyond the core count end after idle_timeout without work.
// Not guaranteed: which thread runs what.
//
// Thread safety: every method from any thread.
// Lifetime: the destructor runs what is still posted, then joins every thread.
#pragma once

#include "keyway/detail/require_cpp20.h"

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "keyway/detail/posted_call.h"
#include "keyway/scheduler.h"

namespace keyway {

struct ThreadPoolOptions {
  // The minimum number of threads; 0: one for each core that this process may use, up to
  // max_threads. If the system cannot start that many, the pool has as many as it can; if it cannot
  // start any, the program ends with a message.
  unsigned threads = 0;
  // The maximum, even if all threads are blocked; at least 1, and at least `threads`. A wait in a
  // task that would leave no thread for its target is refused (ErrorCode::kNoThread).
  unsigned max_threads = 4096;
  Duration idle_timeout = std::chrono::seconds(5);
};

struct ThreadPoolStats {
  unsigned threads = 0;
  unsigned parked = 0;  // of these, asleep for want of work
  unsigned peak_threads = 0;
  std::uint64_t turns = 0;  // runnables run
  std::uint64_t parks = 0;  // times a thread went to sleep
};

class ThreadPool final : public Scheduler {
 public:
  // Throws Exception (kInvalidArgument) for options out of range.
  explicit ThreadPool(ThreadPoolOptions options = {});
  ~ThreadPool() override;

  // What the destructor does; what is posted afterwards never runs, and no timer fires.
  // REQUIRES: one thread at a time, none of the pool's.
  void end_threads();

  ThreadPoolStats stats() const;

  // Runs `work`, which may be move-only, once on a thread of the pool. If it throws, the program
  // ends.
  template <class F>
    requires std::is_invocable_v<std::decay_t<F>>
  void execute(F&& work) {
    static_assert(alignof(std::decay_t<F>) <= 16, "hold a value with such an alignment by pointer");
    post(*new detail::PostedCall<std::decay_t<F>>(std::forward<F>(work)));
  }

  void post(Runnable& runnable) override;
  void post_from_outside(Runnable& runnable) override;
  TimePoint now() const override;
  void add_timer(Timer& timer, TimePoint deadline) override;
  bool cancel_timer(Timer& timer) override;
  bool wait_for_turns_in_progress(const TimePoint* deadline = nullptr) override;
  void begin_blocking() override;
  void end_blocking() override;
  void add_idle_listener(IdleListener& listener) override;
  void remove_idle_listener(IdleListener& listener) override;
  std::size_t max_threads() const override;
  const char* how_to_get_more_threads() const override {
    return "raise ThreadPoolOptions::max_threads";
  }

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

namespace detail {
// The pool of the process, made at its first use: for user code that must not run on a timer
// thread, nor wait until a thread of a scheduler is free.
ThreadPool& background_pool();
}  // namespace detail

}  // namespace keyway
