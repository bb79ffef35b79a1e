// What Keyway knows of the calling thread: which scheduler's run() it is in, which scopes of tasks, and which engines.
// A stack that takes turns with others on one thread (testing/fiber.h) has one of its own.
#pragma once

#include <cstdint>
#include <utility>

#include "keyway/detail/operation.h"
#include "keyway/scheduler.h"

namespace keyway {

namespace detail {
class CurrentTaskScope;
}

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

  // Work that waits until what the thread runs has returned. If the thread blocks instead, others do it.
  class Deferred {
   public:
    virtual void hand_over() noexcept = 0;

   protected:
    ~Deferred() = default;
  };

  // The calling thread's.
  static ThreadContext& here();

  // Of this stack; never 0, and never given out again.
  std::uint64_t id() {
    if (id_ == 0) [[unlikely]]
      draw_id();
    return id_;
  }

  Scheduler* scheduler = nullptr;
  detail::CurrentTaskScope* innermost_scope = nullptr;
  // Of work outside of all scopes; null: the thread's own.
  const detail::Operation* outside = nullptr;
  Deferred* deferred = nullptr;

 private:
  void draw_id();

  std::uint64_t id_ = 0;
  const Use* innermost_use_ = nullptr;
};

namespace detail {
// Defined in one library, not inline: shared libraries must all see the same one.
extern constinit thread_local ThreadContext this_thread_context;
}  // namespace detail

inline ThreadContext& ThreadContext::here() { return detail::this_thread_context; }

}  // namespace keyway
