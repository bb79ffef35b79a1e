// Counts the uses of an engine, and waits until it is quiet: no task in its lanes, and no use.
//
// A use is a scope in which a thread works in the engine, or a posted item that has not run. A
// thread that drains inside uses of its own (a listener) does not wait for them, nor do other
// threads that drain meanwhile. The engine's destructor waits for all uses.
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
  // A use without a scope.
  void begin() KEYWAY_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    ++uses_;
    ++begun_;
  }
  void end() KEYWAY_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);  // to the end: after the unlock, the engine may be destroyed
    --uses_;
    changed();
  }

  // To be called after each step that may make the engine quiet.
  void changed() {
    // seq_cst: a waiter stores waiting_ before it checks its condition, and a worker loads waiting_
    // after its step, so one of them sees the other.
    if (!waiting_.load(std::memory_order_seq_cst)) [[likely]]
      return;
    waiting_.store(false, std::memory_order_seq_cst);
    bump();
  }

  // Blocks until condition() is true; checks it again after each changed().
  template <class Condition>
  WaitEnd wait_for(Condition condition, const TimePoint* deadline, Scheduler& scheduler) {
    struct Watched {
      bool done() { return condition(); }
      std::uint32_t announce() {
        // Load the word first: changed() clears waiting_ before it changes the word.
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

  // Whether lanes_quiet() is true while there is no use. `strict`: uses of threads that drain
  // count, too.
  template <class Condition>
  bool is_quiet(Condition& lanes_quiet, bool strict) {
    // There was no use before lanes_quiet(), and none has begun since.
    const std::optional<std::uint64_t> begun = uses_begun_if_unused(strict);
    return begun && lanes_quiet() && uses_begun_if_unused(strict) == begun;
  }

  // wait_for(), during which draining threads do not wait for the uses of the calling thread.
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
  // Moves uses of the calling thread from uses_ to draining_uses_; a negative number moves them
  // back.
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
