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

void WorkerThread::post(Runnable& runnable) {
  ready_.push(runnable);
  sleep_.wake();
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
    turn_edges_.store(++edge,
                      std::memory_order_release);  // pairs with wait_for_turns_in_progress()
    if (Runnable* again = std::exchange(turn.again, nullptr)) ready_.push(*again);
  }
}

void WorkerThread::wait_for_turns_in_progress() {
  if (this_thread_ == this) return;
  const std::uint64_t edge = turn_edges_.load(std::memory_order_acquire);
  if (edge % 2 == 0) return;
  while (turn_edges_.load(std::memory_order_acquire) == edge) yield_thread();
}

}  // namespace keyway
