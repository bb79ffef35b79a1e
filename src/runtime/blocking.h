// block(): how every thread in Keyway waits.
//
// A waiting thread never runs other work on its stack. That work could need a lock or a permit that
// the waiter holds, and the waiter could not go on before the work returns. Instead, a thread pool
// starts another thread, and a simulation runs every item on a stack of its own. If neither is
// possible, the WaitGraph refuses the wait. So every accepted wait leaves a thread for its target.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <optional>
#include <stop_token>

#include "base/futex.h"
#include "base/spin_lock.h"
#include "keyway/scheduler.h"

namespace keyway {

enum class WaitEnd { kDone, kTimedOut, kStopped, kStuck };

// What a thread can wait for.
//   done()      whether the wait is over
//   announce()  publishes that the caller is about to sleep, and returns the value of word() to sleep on; block()
//               calls done() once more before it sleeps
//   word()      a futex; it changes, and its sleepers are woken, when done() becomes true
//   kick()      from any thread: changes word() and wakes its sleepers, which call done() again
//   spin_again()  optional: whether to spin once more before the next sleep
template <class T>
concept Waitable = requires(T& what) {
  { what.done() } -> std::convertible_to<bool>;
  { what.announce() } -> std::same_as<std::uint32_t>;
  { what.word() } -> std::convertible_to<const detail::Atomic<std::uint32_t>&>;
  what.kick();
};

struct WaitOptions {
  const TimePoint* deadline = nullptr;
  std::stop_token stop{};
  int spins = 0;   // calls of done() before the first sleep
  int yields = 0;  // further calls of done(), with a yield of the core after each
  // The target's scheduler. If it is driven and the caller is not inside a run(), the caller drives
  // it.
  Scheduler* scheduler = nullptr;
};

// The scheduler in which the calling thread sleeps while it waits for work of `target`; null: it
// sleeps in the kernel.
inline Scheduler* sleeping_place(Scheduler* target) {
  if (Scheduler* here = Scheduler::current()) return here;
  return target != nullptr && target->is_driven() ? target : nullptr;
}

// Tells the calling thread's scheduler, if it has one, that the thread may block in this scope.
class BlockingRegion {
 public:
  BlockingRegion() : scheduler_(Scheduler::current()) {
    if (scheduler_ != nullptr) scheduler_->begin_blocking();
  }
  ~BlockingRegion() {
    if (scheduler_ != nullptr) scheduler_->end_blocking();
  }
  BlockingRegion(const BlockingRegion&) = delete;
  BlockingRegion& operator=(const BlockingRegion&) = delete;

 private:
  Scheduler* const scheduler_;
};

// The longest time that a loop yields: on a busy core, one yield may take some milliseconds.
inline constexpr std::chrono::microseconds kLongestYielding{200};

template <Waitable T>
bool spin_for(T& what, int spins, int yields) {
  for (int i = 0; i < spins; ++i) {
    if (what.done()) return true;
    cpu_relax();
  }
  if (yields == 0) return what.done();
  const auto until = std::chrono::steady_clock::now() + kLongestYielding;
  for (int i = 0; i < yields; ++i) {
    if (what.done()) return true;
    yield_thread();
    if (std::chrono::steady_clock::now() > until) break;
  }
  return what.done();
}

// REQUIRES: `what` lives until it is done, or until the wait has ended in another way.
template <Waitable T>
WaitEnd block(T& what, const WaitOptions& options = {}) {
  Scheduler* const place = sleeping_place(options.scheduler);
  const bool driven = place != nullptr && place->is_driven();
  if (driven ? what.done() : spin_for(what, options.spins, options.yields)) return WaitEnd::kDone;
  const BlockingRegion region;
  struct Kick {
    T& what;
    void operator()() const { what.kick(); }
  };
  std::optional<std::stop_callback<Kick>> on_stop;
  if (options.stop.stop_possible()) on_stop.emplace(options.stop, Kick{what});
  while (true) {
    const std::uint32_t value = what.announce();
    if (what.done()) return WaitEnd::kDone;
    if (options.stop.stop_requested()) return WaitEnd::kStopped;
    Slept slept = Slept::kLookAgain;
    if (place != nullptr) {
      slept = place->sleep(what.word(), value, options.deadline);
    } else {
      const Deadline until =
          options.deadline != nullptr ? Deadline(*options.deadline) : std::nullopt;
      if (!futex_wait(what.word(), value, until)) slept = Slept::kTimedOut;
    }
    if (slept == Slept::kLookAgain) {
      if constexpr (requires { what.spin_again(); }) {
        if (!driven && what.spin_again() && spin_for(what, options.spins, options.yields)) {
          return WaitEnd::kDone;
        }
      }
      continue;
    }
    if (what.done()) return WaitEnd::kDone;
    return slept == Slept::kTimedOut ? WaitEnd::kTimedOut : WaitEnd::kStuck;
  }
}

}  // namespace keyway
