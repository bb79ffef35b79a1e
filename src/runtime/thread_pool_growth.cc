// Starts and joins a pool's threads: as many as the work needs while some of them are blocked.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/blocked_probe.h"
#include "runtime/blocking.h"
#include "runtime/thread_pool_impl.h"

namespace keyway {
namespace {

constexpr int kQuietTicksBeforeSleep = 16;

// Whether a join of the thread returns at once: its thread_local destructors, which are user code, have run.
bool has_exited(pid_t thread_id) {
  return ::syscall(SYS_tgkill, ::getpid(), thread_id, 0) != 0 && errno == ESRCH;
}

Duration cpu_of_this_thread() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

bool ThreadPool::Impl::spawn() {
  MutexLock lock(workers_mutex_);
  if (workers_.size() - ended_count() >= max_threads_ || closed_) return false;
  Worker& worker = *workers_.emplace_back(std::make_shared<Worker>());
  idle_.thread_started();
  try {
    worker.thread = std::thread([this, &worker] {
      BlockedProbe probe;
      {
        MutexLock started(workers_mutex_);
        worker.thread_id = ::gettid();
        worker.probe = &probe;
      }
      run(worker);
      {
        MutexLock ended(workers_mutex_);
        worker.probe = nullptr;
        worker.ended = true;
      }
      service_.want_ticks();  // a tick joins this thread when it has exited
    });
  } catch (const std::system_error&) {
    // The system cannot start a thread. The pool goes on with the threads that it has.
    idle_.stop_searching();
    idle_.thread_ended();
    workers_.pop_back();
    return false;
  }
  peak_threads_ = std::max(peak_threads_, static_cast<unsigned>(workers_.size() - ended_count()));
  return true;
}

std::size_t ThreadPool::Impl::ended_count() const {
  return static_cast<std::size_t>(std::count_if(workers_.begin(), workers_.end(),
                                                [](const auto& worker) { return worker->ended; }));
}

// False if a thread that has ended is not joined yet: it still runs destructors of its user, and a tick must not wait for them.
bool ThreadPool::Impl::join_exited() {
  MutexLock lock(workers_mutex_);
  join_if([](const Worker& worker) { return worker.ended && has_exited(worker.thread_id); });
  return ended_count() == 0;
}

template <class Predicate>
void ThreadPool::Impl::join_if(Predicate predicate) {
  const auto first = std::partition(workers_.begin(), workers_.end(),
                                    [&](const auto& worker) { return !predicate(*worker); });
  for (auto worker = first; worker != workers_.end(); ++worker) {
    if ((*worker)->thread.joinable()) (*worker)->thread.join();
    past_turns_ += (*worker)->turn_edges.load(std::memory_order_relaxed) / 2;
    past_parks_ += (*worker)->parks.load(std::memory_order_relaxed);
  }
  workers_.erase(first, workers_.end());
}

// A tick may join threads meanwhile, and may start others for items that are left.
void ThreadPool::Impl::join_all() {
  const BlockingRegion region;
  while (true) {
    std::shared_ptr<Worker> worker;
    std::thread thread;
    {
      MutexLock lock(workers_mutex_);
      closed_ = workers_.empty();
      if (closed_) return;
      worker = workers_.back();
      thread = std::move(worker->thread);
    }
    thread.join();
    MutexLock lock(workers_mutex_);
    join_if([&](const Worker& one) { return &one == worker.get(); });
  }
}

// If work is ready and no worker searches for it, wakes or starts workers in place of blocked ones.
bool ThreadPool::Impl::tick() {
  const IdleCounts counts = idle_.counts();
  if (ready_.empty() || counts.searching > 0) {
    return ++quiet_ticks_ < kQuietTicksBeforeSleep || !join_exited();
  }
  quiet_ticks_ = 0;
  if (!probe_pace_.is_due(std::chrono::steady_clock::now())) return true;
  const Duration cpu_before = cpu_of_this_thread();
  const unsigned blocked = count_blocked();
  probe_pace_.looked(std::chrono::steady_clock::now(), cpu_of_this_thread() - cpu_before);
  const unsigned active = counts.active();
  auto [target, more] = growth_.decide(active, std::min(active, blocked));
  target_.store(target, std::memory_order_relaxed);
  const unsigned parked = std::min(more, counts.parked);
  if (parked > 0) wake(parked, /*unless_searching=*/false);
  for (more -= parked; more > 0 && spawn(); --more) {
  }
  return true;
}

unsigned ThreadPool::Impl::count_blocked() {
  MutexLock lock(workers_mutex_);
  const TimePoint now = std::chrono::steady_clock::now();
  unsigned blocked = 0;
  for (const auto& worker : workers_) {
    const bool in_turn = worker->turn_edges.load(std::memory_order_relaxed) % 2 == 1;
    if (!in_turn || worker->probe == nullptr) continue;
    if (worker->blocking_depth.load(std::memory_order_relaxed) > 0 || worker->probe->blocked(now)) {
      ++blocked;
    }
  }
  return blocked;
}

void ThreadPool::Impl::begin_blocking() {
  Worker* const me = this_worker();
  if (me == nullptr) return;
  if (me->blocking_depth.fetch_add(1, std::memory_order_release) > 0) return;
  turn_watch_.changed();
  // The target of this thread's wait may be ready, and need a thread.
  const unsigned target = target_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (ready_.empty()) return;
  const IdleCounts counts = idle_.counts();
  if (counts.searching > 0 || counts.active() >= target) return;
  if (counts.parked > 0) {
    wake(1, /*unless_searching=*/true);
  } else {
    spawn();
  }
}

void ThreadPool::Impl::end_blocking() {
  Worker* const me = this_worker();
  if (me == nullptr) return;
  if (me->blocking_depth.fetch_sub(1, std::memory_order_relaxed) > 1) return;
  unsigned target = target_.load(std::memory_order_relaxed);
  while (target > base_threads_ &&
         !target_.compare_exchange_weak(target, target - 1, std::memory_order_relaxed)) {
  }
}

ThreadPoolStats ThreadPool::Impl::stats() const {
  const IdleCounts counts = idle_.counts();
  ThreadPoolStats stats{.threads = counts.threads, .parked = counts.parked};
  MutexLock lock(workers_mutex_);
  stats.peak_threads = peak_threads_;
  stats.turns = past_turns_;
  stats.parks = past_parks_;
  for (const auto& worker : workers_) {
    stats.turns += worker->turn_edges.load(std::memory_order_relaxed) / 2;
    stats.parks += worker->parks.load(std::memory_order_relaxed);
  }
  return stats;
}

ThreadPoolStats ThreadPool::stats() const { return impl_->stats(); }
void ThreadPool::begin_blocking() { impl_->begin_blocking(); }
void ThreadPool::end_blocking() { impl_->end_blocking(); }

}  // namespace keyway
