#include "serial/worker_thread.h"

#include <utility>

#include "base/spin_lock.h"
#include "base/tick_clock.h"
#include "keyway/detail/check.h"
#include "runtime/current_scheduler.h"

namespace keyway {

constinit thread_local const WorkerThread* WorkerThread::this_thread_ = nullptr;

void WorkerThread::end_thread() {
  KEYWAY_CHECK(this_thread_ != this, "a worker thread cannot be ended by itself");
  if (!thread_.joinable()) return;
  sleep_.stop();
  thread_.join();
}

void WorkerThread::post_from_outside(Runnable& runnable) {
  if (this_thread_ == this) return post(runnable);  // the WorkerThread outlives its own thread
  const PostsInProgress::Post in_progress(posts_);
  post(runnable);
}

void WorkerThread::run() {
  this_thread_ = this;
  const CurrentScheduler current(this);
  TickClock clock;
  Turn turn{.clock = &clock};
  std::uint64_t edge = 0;
  while (true) {
    Runnable* item = ready_.pop();
    if (item == nullptr) {
      if (!sleep_.wait_for_work([this] { return !ready_.empty(); }, *this)) return;
      continue;
    }
    turn_edges_.store(++edge, std::memory_order_relaxed);
    item->run(turn);
    turn_edges_.store(++edge, std::memory_order_release);
    turn_watch_.changed();
    if (Runnable* again = std::exchange(turn.again, nullptr)) ready_.push(*again);
  }
}

bool WorkerThread::wait_for_turns_in_progress(const TimePoint* deadline) {
  if (this_thread_ == this) return true;
  const std::uint64_t edge = turn_edges_.load(std::memory_order_acquire);
  if (edge % 2 == 0) return true;
  const auto over = [&] {
    return turn_edges_.load(std::memory_order_acquire) != edge ||
           blocking_depth_.load(std::memory_order_acquire) > 0;
  };
  return turn_watch_.wait(over, deadline, *this);
}

void WorkerThread::begin_blocking() {
  if (this_thread_ != this) return;
  blocking_depth_.fetch_add(1, std::memory_order_release);
  turn_watch_.changed();
}

void WorkerThread::end_blocking() {
  if (this_thread_ == this) blocking_depth_.fetch_sub(1, std::memory_order_release);
}

}  // namespace keyway
