// The implementation of ThreadPool. thread_pool.cc has the loop of its workers;
// thread_pool_growth.cc starts and joins them.
//
// Thread safety: every public method from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "keyway/detail/atomic.h"
#include "keyway/detail/idle_listener.h"
#include "keyway/thread_pool.h"
#include "lanes/ready_queue.h"
#include "runtime/idle_protocol.h"
#include "runtime/pool_growth.h"
#include "runtime/posts_in_progress.h"
#include "runtime/service_thread.h"
#include "runtime/turn_watch.h"
#include "runtime/worker.h"

namespace keyway {

class ThreadPool::Impl {
 public:
  Impl(ThreadPool& pool, ThreadPoolOptions options);
  ~Impl() {
    end_threads();
    posts_.wait_for_all();
  }
  void end_threads() KEYWAY_EXCLUDES(workers_mutex_);

  void post(Runnable& runnable) {
    ready_.push(runnable);
    wake_if_needed();
  }
  void post_from_outside(Runnable& runnable);
  void add_timer(Timer& timer, TimePoint deadline) { service_.add_timer(timer, deadline); }
  bool cancel_timer(Timer& timer) { return service_.cancel_timer(timer); }
  bool wait_for_turns_in_progress(const TimePoint* deadline) KEYWAY_EXCLUDES(workers_mutex_);
  void begin_blocking();
  void end_blocking();
  void check_unused() KEYWAY_EXCLUDES(listeners_mutex_);
  void add_idle_listener(IdleListener& listener) KEYWAY_EXCLUDES(listeners_mutex_);
  void remove_idle_listener(IdleListener& listener) KEYWAY_EXCLUDES(listeners_mutex_);
  std::size_t max_threads() const { return max_threads_; }
  ThreadPoolStats stats() const KEYWAY_EXCLUDES(workers_mutex_);

 private:
  enum class Woken { kToSearch, kToEnd };

  // The workers.
  void run(Worker& me);
  bool run_one(Runnable& item, Turn& turn, Worker& me);
  bool search() const;
  Woken park(Worker& me, bool searching) KEYWAY_EXCLUDES(park_mutex_);
  Woken park_surplus(Worker& me) KEYWAY_EXCLUDES(park_mutex_);
  Woken sleep(Worker& me) KEYWAY_EXCLUDES(park_mutex_);
  void give_memory_back() KEYWAY_EXCLUDES(listeners_mutex_);
  bool leave_parked(Worker& me) KEYWAY_EXCLUDES(park_mutex_);
  bool end_if_surplus(Worker& me) KEYWAY_EXCLUDES(park_mutex_);
  void enlist_parked(Worker& me) KEYWAY_REQUIRES(park_mutex_);
  void delist_parked(Worker& me) KEYWAY_REQUIRES(park_mutex_);

  Worker* this_worker() const;  // null: the calling thread is not of this pool

  // The number of workers.
  void wake_if_needed();
  void wake(unsigned how_many, bool unless_searching) KEYWAY_EXCLUDES(park_mutex_);
  bool spawn() KEYWAY_EXCLUDES(workers_mutex_);
  bool tick();
  unsigned count_blocked() KEYWAY_EXCLUDES(workers_mutex_);
  std::size_t ended_count() const KEYWAY_REQUIRES(workers_mutex_);
  bool join_exited() KEYWAY_EXCLUDES(workers_mutex_);
  template <class Predicate>
  void join_if(Predicate predicate) KEYWAY_REQUIRES(workers_mutex_);
  void join_all() KEYWAY_EXCLUDES(workers_mutex_);

  // Constant after construction.
  ThreadPool& pool_;
  const unsigned cores_;
  const unsigned base_threads_;
  const unsigned max_threads_;
  const Duration idle_timeout_;

  // Have their own synchronization.
  ReadyQueue ready_;
  PostsInProgress posts_;  // by other threads
  alignas(64) IdleProtocol idle_;
  std::atomic<unsigned> target_;  // how many workers may be active: a hint, so relaxed throughout
  detail::Atomic<bool> stopping_{false};
  alignas(64) TurnWatch turn_watch_;  // read by every turn, rarely written

  // The service thread's.
  alignas(64) int quiet_ticks_ = 0;
  PoolGrowth growth_;
  ProbePace probe_pace_;

  mutable Mutex<LockRank::kPoolWorkers> workers_mutex_;
  std::vector<std::shared_ptr<Worker>> workers_ KEYWAY_GUARDED_BY(workers_mutex_);
  bool closed_ KEYWAY_GUARDED_BY(workers_mutex_) = false;
  unsigned peak_threads_ KEYWAY_GUARDED_BY(workers_mutex_) = 0;
  std::uint64_t past_turns_ KEYWAY_GUARDED_BY(workers_mutex_) = 0;
  std::uint64_t past_parks_ KEYWAY_GUARDED_BY(workers_mutex_) = 0;

  Mutex<LockRank::kPoolListeners> listeners_mutex_;
  std::vector<IdleListener*> listeners_ KEYWAY_GUARDED_BY(listeners_mutex_);

  Mutex<LockRank::kPoolPark> park_mutex_;
  Worker* last_parked_ KEYWAY_GUARDED_BY(park_mutex_) = nullptr;

  ServiceThread service_;
};

}  // namespace keyway
