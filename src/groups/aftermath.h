// The posts and wake-ups of one operation of the engine. They are performed when the operation is
// complete.
//
// The rule of this room: user code runs only when the engine's state is complete: the permits are
// back, the next task can start, and no lock is held. User code is a listener, a rejection handler,
// a continuation, the destructor of a callable or value, or a foreign execute() behind
// Scheduler::post(). So an operation collects here which lanes to post and which waiters to wake.
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
  // kAnybody: the calling thread may be one that only wakes a task, and does not keep the scheduler
  // alive; it posts by Scheduler::post_from_outside().
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
  // The same for a task that entered its queue: first calls TaskOwner::came_in().
  void tell_let_in(detail::RoomWaiter& waiter, detail::TaskCore& task) {
    more().room_waiters.push_back({&waiter, true, &task});
  }

  // REQUIRES: no lock is held. A posted lane or a woken waiter may destroy the objects of this
  // operation.
  void perform();

 private:
  struct RoomNews {
    detail::RoomWaiter* waiter;
    bool came;
    detail::TaskCore* let_in;  // the waiter has a reference until room_came(); null: not let in
  };
  // Allocated only when needed: a task uses three Aftermaths, so they are small.
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
