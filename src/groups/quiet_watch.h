// Who is inside an engine besides the tasks in its lanes, and the wait until nobody is.
//
// A Use is a thread that works in the engine, for as long as its scope; or something that was posted, until it has run.
// A thread that waits for quiet inside a use of its own (a listener that drains) does not wait for that use, nor do
// others that drain meanwhile; but the engine is not destroyed before it has left.
//
// Thread safety: every method from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "base/futex.h"
#include "base/mutex.h"
#include "runtime/blocking.h"
#include "runtime/thread_context.h"

namespace keyway {

class QuietWatch {
 public:
  class Use : public ThreadContext::Use {
   public:
    explicit Use(QuietWatch& watch, bool counts = true)
        : ThreadContext::Use(counts ? &watch : nullptr), watch_(counts ? &watch : nullptr) {
      if (watch_ != nullptr) watch_->begin();
    }
    ~Use() {
      if (watch_ != nullptr) watch_->end();
    }

   private:
    QuietWatch* const watch_;
  };
  // The same without a scope.
  void begin() KEYWAY_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    ++uses_;
    ++begun_;
  }
  void end() KEYWAY_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);  // all of it: once the mutex is free, the engine may be gone
    --uses_;
    changed();
  }

  // To be called after each step that may leave the engine quiet.
  void changed() {
    // The waiter announces itself before it looks, and a worker looks for waiters after its step: one of them sees the
    // other.
    if (!waiting_.load(std::memory_order_seq_cst)) [[likely]]
      return;
    waiting_.store(false, std::memory_order_seq_cst);
    bump();
  }

  // Waits until `condition` holds. It is looked at again after each changed().
  template <class Condition>
  WaitEnd wait_for(Condition condition, const TimePoint* deadline, Scheduler& scheduler) {
    struct Watched {
      bool done() { return condition(); }
      std::uint32_t announce() {
        // The word first: a step that takes the announcement back changes the word after that.
        const std::uint32_t value = watch.word_.load(std::memory_order_seq_cst);
        watch.waiting_.store(true, std::memory_order_seq_cst);
        return value;
      }
      const detail::Atomic<std::uint32_t>& word() const { return watch.word_; }
      void kick() { watch.bump(); }
      QuietWatch& watch;
      Condition& condition;
    } watched{*this, condition};
    return block(watched, {.deadline = deadline, .scheduler = &scheduler});
  }

  // Whether `lanes_quiet` holds, and nobody is inside at the same time. `strict`: not even threads that drain.
  template <class Condition>
  bool is_quiet(Condition& lanes_quiet, bool strict) {
    // No use before, none begun meanwhile, and no task in a lane: nobody is there.
    const std::optional<std::uint64_t> begun = uses_begun_if_unused(strict);
    return begun && lanes_quiet() && uses_begun_if_unused(strict) == begun;
  }

  // wait_for(), in which threads that drain do not wait for the uses of the calling thread.
  template <class Condition>
  WaitEnd drain(Condition condition, const TimePoint* deadline, Scheduler& scheduler) {
    const std::uint64_t own = ThreadContext::Use::count(this);
    set_draining(own);
    const WaitEnd end = wait_for(std::move(condition), deadline, scheduler);
    set_draining(std::uint64_t{0} - own);
    return end;
  }

 private:
  void bump() {
    word_.fetch_add(1, std::memory_order_seq_cst);
    futex_wake_all(word_);
  }
  std::optional<std::uint64_t> uses_begun_if_unused(bool strict) KEYWAY_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (uses_ > 0 || (strict && draining_uses_ > 0)) return std::nullopt;
    return begun_;
  }
  // Uses of a thread that begins to drain; a negative number when it has.
  void set_draining(std::uint64_t uses) KEYWAY_EXCLUDES(mutex_) {
    if (uses == 0) return;
    MutexLock lock(mutex_);
    uses_ -= uses;
    draining_uses_ += uses;
    changed();
  }

  detail::Atomic<bool> waiting_{false};
  detail::Atomic<std::uint32_t> word_{0};
  Mutex<LockRank::kQuiet> mutex_;
  std::uint64_t uses_ KEYWAY_GUARDED_BY(mutex_) = 0;
  std::uint64_t begun_ KEYWAY_GUARDED_BY(mutex_) = 0;
  std::uint64_t draining_uses_ KEYWAY_GUARDED_BY(mutex_) =
      0;  // of threads that drain; not in uses_
};

}  // namespace keyway
