// The state that Keyway keeps for each thread: the scheduler that it runs for, the task scopes and
// the engines that it is in. A fiber (testing/fiber.h) has a ThreadContext of its own.
#pragma once

#include <cstdint>
#include <utility>

#include "keyway/detail/operation.h"
#include "keyway/scheduler.h"

namespace keyway {

namespace detail {
class CurrentTaskScope;
class TaskCore;
}  // namespace detail

class ThreadContext {
 public:
  // A scope in which the thread uses something, for example an engine.
  class Use {
   public:
    // Null: it uses nothing.
    explicit Use(const void* what) : what_(what) {
      if (what_ != nullptr) outer_ = std::exchange(here().innermost_use_, this);
    }
    ~Use() {
      if (what_ != nullptr) here().innermost_use_ = outer_;
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

    // How many scopes of the calling thread use it.
    static std::uint64_t count(const void* what) {
      std::uint64_t found = 0;
      for (const Use* use = here().innermost_use_; use != nullptr; use = use->outer_) {
        if (use->what_ == what) ++found;
      }
      return found;
    }

   private:
    const void* const what_;
    const Use* outer_ = nullptr;
  };

  // A scope in which a coroutine of a task starts branches. If a branch blocks the thread, the coroutine
  // does not run either.
  class Starter {
   public:
    // Null: of no task.
    explicit Starter(const void* task)
        : task_(task), outer_(std::exchange(here().innermost_starter_, this)) {}
    ~Starter() { here().innermost_starter_ = outer_; }
    Starter(const Starter&) = delete;
    Starter& operator=(const Starter&) = delete;

    // The number of those of `task` on the stack of the calling thread.
    static int count(const void* task) {
      int found = 0;
      for (const Starter* one = here().innermost_starter_; one != nullptr; one = one->outer_) {
        if (one->task_ == task) ++found;
      }
      return found;
    }

   private:
    const void* const task_;
    const Starter* const outer_;
  };

  // The context of the calling thread or fiber.
  static ThreadContext& here();

  // Identifies the thread or fiber: never 0, and unique in the process.
  std::uint64_t id() {
    if (id_ == 0) [[unlikely]]
      draw_id();
    return id_;
  }

  Scheduler* scheduler = nullptr;
  detail::CurrentTaskScope* innermost_scope = nullptr;
  // The operation for work outside of all task scopes; null: the thread's own operation.
  const detail::Operation* outside = nullptr;
  // The task whose operation may end here: see LeftLocks.
  const detail::TaskCore* ending_task = nullptr;

 private:
  void draw_id();

  std::uint64_t id_ = 0;
  const Use* innermost_use_ = nullptr;
  const Starter* innermost_starter_ = nullptr;
};

namespace detail {
// Defined in one library, not inline: shared libraries must all see the same one.
extern constinit thread_local ThreadContext this_thread_context;
}  // namespace detail

inline ThreadContext& ThreadContext::here() { return detail::this_thread_context; }

}  // namespace keyway
