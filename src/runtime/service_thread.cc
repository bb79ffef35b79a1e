#include "runtime/service_thread.h"

#include <algorithm>
#include <utility>

#include <sys/prctl.h>

namespace keyway {
namespace {

constexpr auto kTick = std::chrono::milliseconds(1);

}  // namespace

ServiceThread::ServiceThread(std::function<bool()> tick, std::function<bool()> still_wanted)
    : tick_(std::move(tick)), still_wanted_(std::move(still_wanted)), thread_([this] { run(); }) {}

ServiceThread::~ServiceThread() { end_thread(); }

void ServiceThread::end_thread() {
  if (!thread_.joinable()) return;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_one();
  }
  thread_.join();
}

void ServiceThread::add_timer(Timer& timer, TimePoint deadline) {
  if (!timers_.add(timer, deadline)) return;
  MutexLock lock(mutex_);
  look_again_ = true;
  changed_.notify_one();
}

void ServiceThread::start_ticking() {
  MutexLock lock(mutex_);
  if (ticking_.exchange(true, std::memory_order_seq_cst)) return;
  look_again_ = true;
  changed_.notify_one();
}

bool ServiceThread::go_on_ticking() {
  if (!ticking_.load(std::memory_order_relaxed)) return false;
  if (tick_()) return true;
  // First say that nobody watches, then look once more: who comes in between sees the one or is
  // seen by the other.
  ticking_.store(false, std::memory_order_seq_cst);
  if (!still_wanted_()) return false;
  ticking_.store(true, std::memory_order_seq_cst);
  return true;
}

void ServiceThread::run() {
  // Timers are rounded up by 50 us otherwise.
  prctl(PR_SET_TIMERSLACK, 1);
  while (true) {
    timers_.fire_due(std::chrono::steady_clock::now());
    const bool ticking = go_on_ticking();
    std::optional<TimePoint> until = timers_.next_deadline();
    if (ticking) {
      const TimePoint next_tick = std::chrono::steady_clock::now() + kTick;
      until = until ? std::min(*until, next_tick) : next_tick;
    }
    MutexLock lock(mutex_);
    if (stopping_) return;
    if (!std::exchange(look_again_, false)) {
      if (until) {
        changed_.wait_until(mutex_, *until);
      } else {
        changed_.wait(mutex_);
      }
      look_again_ = false;
    }
  }
}

}  // namespace keyway
