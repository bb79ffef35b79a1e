// The one way in which a thread of Keyway, or one that calls it, waits.
//
// A waiting thread never runs other work on its stack: that work could need what the waiter holds, and the waiter
// could not go on before it. A thread pool starts another thread instead; a driven scheduler does its steps elsewhere (a
// simulation runs every item on a stack of its own). Where neither is possible, the WaitGraph refuses the wait
// before it begins. So every wait that was accepted leaves a thread for what it waits for.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <stop_token>

#include "base/futex.h"
#include "base/spin_lock.h"
#include "keyway/scheduler.h"
#include "runtime/thread_context.h"

namespace keyway {

enum class WaitEnd { kDone, kTimedOut, kStopped, kStuck };

// What a thread can wait for.
//   done()      whether the wait is over
//   announce()  says that somebody sleeps, and gives the value of word() to sleep on; done() is looked at afterwards
//   word()      changes, and is woken, when done() becomes true
//   kick()      changes word() and wakes it, from any thread, so that the waiter looks again
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
  int spins = 0;   // how often to look before the first sleep
  int yields = 0;  // and after that, yielding the core between two looks
  // Of what is waited for. If it is driven, the waiter drives it, unless it is in a run() itself.
  Scheduler* scheduler = nullptr;
};

// Where the calling thread sleeps while it waits for something of `target`; null: in the kernel.
inline Scheduler* sleeping_place(Scheduler* target) {
  if (Scheduler* here = Scheduler::current()) return here;
  return target != nullptr && target->is_driven() ? target : nullptr;
}

// The calling thread's blocking region, if it is a scheduler's.
class BlockingRegion {
 public:
  BlockingRegion() : scheduler_(Scheduler::current()) {
    if (ThreadContext::Deferred* deferred = ThreadContext::here().deferred) deferred->hand_over();
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

template <Waitable T>
bool spin_for(T& what, int spins, int yields) {
  for (int i = 0; i < spins + yields; ++i) {
    if (what.done()) return true;
    i < spins ? cpu_relax() : yield_thread();
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
