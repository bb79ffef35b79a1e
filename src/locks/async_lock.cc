#include "locks/async_lock.h"

#include <deque>
#include <string>
#include <utility>

#include "keyway/thread_pool.h"
#include "runtime/thread_context.h"

namespace keyway::detail {

// The coroutines that this thread has to resume. They are not keyway::Tasks, so they have no
// scheduler.
class AsyncLock::Line final : ThreadContext::Deferred {
 public:
  static void resume(AsyncLock& lock) {
    ThreadContext& here = ThreadContext::here();
    if (here.deferred != nullptr) return static_cast<Line*>(here.deferred)->locks_.push_back(&lock);
    Line line;
    line.locks_.push_back(&lock);
    here.deferred = &line;
    while (!line.locks_.empty()) {
      const std::coroutine_handle<> next = line.locks_.front()->coroutine_;
      line.locks_.pop_front();
      next.resume();
    }
    here.deferred = nullptr;
  }
  // Calls `tell`, which may grant locks. The coroutines go on on threads of the background pool.
  template <class Tell>
  static void resume_elsewhere(Tell tell) {
    ThreadContext& here = ThreadContext::here();
    if (here.deferred != nullptr) return tell();
    Line line;
    here.deferred = &line;
    tell();
    here.deferred = nullptr;
    line.hand_over();
  }

 private:
  void hand_over() noexcept override {
    for (AsyncLock* lock : std::exchange(locks_, {})) {
      lock->resumption_.post(lock->coroutine_, background_pool());
    }
  }

  std::deque<AsyncLock*> locks_;
};

AsyncLock::AsyncLock(LockTable& table, std::string_view key, std::size_t hash, LockMode wanted,
                     const TaskContext* context)
    : LockWaiter(context != nullptr ? &context->operation : nullptr, wanted, /*leaves=*/false),
      table_(table),
      key_(key),
      hash_(hash),
      context_(context),
      wait_(table, key, hash, *this) {}

bool AsyncLock::begin(std::coroutine_handle<> coroutine) {
  coroutine_ = coroutine;
  since = context_ != nullptr ? context_->scheduler->now() : std::chrono::steady_clock::now();
  if (context_ != nullptr && context_->stop.stop_possible()) {
    on_stop_.emplace(context_->stop, OnStop{this});
  }
  const Result<void> begun = wait_.begin(/*blocks=*/false);
  if (!begun && table_.withdraw(hash_, *this)) throw Exception(begun.error());
  // acq_rel: `cancelled` is written before leave_line(), and read after it.
  const bool goes_on =
      !wait_.stands_in_line() || first_has_come_.exchange(true, std::memory_order_acq_rel);
  if (!goes_on) return true;  // another thread may resume it by now: nothing of this may be touched
  if (context_ == nullptr) return false;
  wait_.end(*this);  // it goes on when it has its permits, perhaps at once
  return true;
}

LockTable::Held AsyncLock::end() {
  on_stop_.reset();  // waits for a callback that runs elsewhere just now
  wait_.forget();
  if (refusal != nullptr) throw Exception(*std::move(refusal));
  if (cancelled) {
    throw CancelledError("the task was cancelled while it waited for key \"" + std::string(key_) +
                         '"');
  }
  if (operation == nullptr) return {entry, 0, mode};
  operation->count_lock(table_.lock_id(hash_));
  return {entry, operation->id(), mode};
}

// A stop callback must not run code of the user: the cancelled task waits for the end of the callback.
void AsyncLock::stop() {
  Line::resume_elsewhere([this] {
    (void)table_.withdraw(hash_, *this, /*cancels=*/true,
                          [](LockWaiter& waiter) { static_cast<AsyncLock&>(waiter).leave_line(); });
  });
}

void AsyncLock::leave_line() {
  if (first_has_come_.exchange(true, std::memory_order_acq_rel)) wait_.end(*this);
}

// A coroutine without a scheduler goes on on the thread that released the lock. If that thread is
// inside such a coroutine already, the new one waits until the first returns, so that the stack
// does not grow with the number of waiters; if the first one blocks, a thread of the background
// pool resumes the new one.
void AsyncLock::wake() noexcept {
  context_ != nullptr ? resumption_.post(coroutine_, *context_) : Line::resume(*this);
}

void tell_granted_elsewhere(Waiter* chain) noexcept {
  AsyncLock::Line::resume_elsewhere([chain] { LockWaiter::tell_granted(chain); });
}

}  // namespace keyway::detail
