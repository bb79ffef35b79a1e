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

#include <cstdint>
#include <memory>
#include <vector>

#include "keyway/detail/task_core.h"
#include "keyway/scheduler.h"

namespace keyway {

class Aftermath {
 public:
  enum class By { kOwner, kAnybody };
  // kAnybody: the calling thread may be one that only wakes a task of this engine: see Scheduler::post_from_outside().
  explicit Aftermath(Scheduler& scheduler, By by = By::kOwner)
      : scheduler_(scheduler), from_outside_(by == By::kAnybody) {}
  ~Aftermath() {
    if (count_ > 0 || more_ != nullptr) [[unlikely]]
      perform();
  }
  Aftermath(const Aftermath&) = delete;
  Aftermath& operator=(const Aftermath&) = delete;

  void post(Runnable& runnable) {
    if (count_ < kPosts) [[likely]] {
      posts_[count_++] = &runnable;
    } else {
      more().posts.push_back(&runnable);
    }
  }
  void wake(detail::Wakeup& wakeup) { more().wakeups.push_back(&wakeup); }
  void tell(detail::RoomWaiter& waiter, bool came) {
    more().room_waiters.push_back({&waiter, came, nullptr});
  }
  // The same for a task that was let in: its owner is told first.
  void tell_let_in(detail::RoomWaiter& waiter, detail::TaskCore& task) {
    more().room_waiters.push_back({&waiter, true, &task});
  }

  // REQUIRES: no lock is held. A posted lane or a woken waiter may destroy what this operation worked on.
  void perform();

 private:
  struct RoomNews {
    detail::RoomWaiter* waiter;
    bool came;
    detail::TaskCore* let_in;  // the waiter has a reference until it is told; null: not let in
  };
  // What few operations have. Every task goes through three of these objects, so they are small.
  struct More {
    std::vector<Runnable*> posts;
    std::vector<detail::Wakeup*> wakeups;
    std::vector<RoomNews> room_waiters;
  };
  More& more();

  static constexpr std::uint32_t kPosts = 2;

  void post_now(Runnable& runnable) {
    from_outside_ ? scheduler_.post_from_outside(runnable) : scheduler_.post(runnable);
  }

  Scheduler& scheduler_;
  const bool from_outside_;
  std::uint32_t count_ = 0;
  std::unique_ptr<More> more_;
  Runnable* posts_[kPosts];
};

}  // namespace keyway
