// What an operation of the engine leaves to be done once its state is complete.
//
// The rule of this room: code of the user's runs only when the engine's state is complete. That is: the permits are
// back, the next task can start, and no lock is held. Such code is a listener, a rejection handler, a continuation, a
// destructor of a callable or value, and a foreign execute() behind Scheduler::post(). So an operation that changes
// state collects here which lanes to post and which waiters to wake, and both happen at the end of it.
// Listeners, results and destructors come after that: see GroupEngine::complete() and Endings.
//
//   Aftermath aftermath(scheduler_);
//   { MutexLock lock(mutex_); ...; aftermath.post(lane); }
//   ... // performed here, at the end of the scope
//
// Thread safety: one thread.
#pragma once

#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "keyway/detail/task_core.h"
#include "keyway/scheduler.h"

namespace keyway {

class Aftermath {
 public:
  explicit Aftermath(Scheduler& scheduler) : scheduler_(scheduler) {}
  ~Aftermath() { perform(); }
  Aftermath(const Aftermath&) = delete;
  Aftermath& operator=(const Aftermath&) = delete;

  void post(Runnable& runnable) {
    if (count_ < posts_.size()) [[likely]] {
      posts_[count_++] = &runnable;
    } else {
      more_posts_.push_back(&runnable);
    }
  }
  void wake(detail::Wakeup& wakeup) { wakeups_.push_back(&wakeup); }
  void tell(detail::RoomWaiter& waiter, bool came) { room_waiters_.emplace_back(&waiter, came); }

  // REQUIRES: no lock is held. Whoever is posted or woken may destroy what this operation worked on.
  void perform() {
    for (std::size_t i = 0; i < count_; ++i) scheduler_.post(*posts_[i]);
    count_ = 0;
    if (!more_posts_.empty()) [[unlikely]] {
      for (Runnable* runnable : std::exchange(more_posts_, {})) scheduler_.post(*runnable);
    }
    if (!wakeups_.empty()) {
      for (detail::Wakeup* wakeup : std::exchange(wakeups_, {})) wakeup->wake();
    }
    if (!room_waiters_.empty()) {
      for (const auto& [waiter, came] : std::exchange(room_waiters_, {})) waiter->room_came(came);
    }
  }

 private:
  Scheduler& scheduler_;
  std::array<Runnable*, 4> posts_{};
  std::size_t count_ = 0;
  std::vector<Runnable*> more_posts_;
  std::vector<detail::Wakeup*> wakeups_;
  std::vector<std::pair<detail::RoomWaiter*, bool>> room_waiters_;
};

}  // namespace keyway
