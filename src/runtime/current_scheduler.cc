#include "runtime/current_scheduler.h"

#include <atomic>

#include "base/futex.h"
#include "keyway/thread_pool.h"
#include "runtime/thread_context.h"

namespace keyway {

constinit thread_local ThreadContext detail::this_thread_context{};

void ThreadContext::draw_id() {
  static std::atomic<std::uint64_t> drawn{0};
  id_ = drawn.fetch_add(1, std::memory_order_relaxed) + 1;
}

Scheduler* Scheduler::background() { return &detail::background_pool(); }

Scheduler* Scheduler::current() { return ThreadContext::here().scheduler; }

void Scheduler::run_posted(Runnable& runnable) {
  Turn turn;
  {
    const CurrentScheduler current(this);
    runnable.run(turn);
  }
  if (turn.again != nullptr) post(*turn.again);
}

Slept Scheduler::sleep(const detail::Atomic<std::uint32_t>& word, std::uint32_t expected,
                       const TimePoint* deadline) {
  const Deadline until = deadline != nullptr ? Deadline(*deadline) : std::nullopt;
  return futex_wait(word, expected, until) ? Slept::kLookAgain : Slept::kTimedOut;
}

}  // namespace keyway
