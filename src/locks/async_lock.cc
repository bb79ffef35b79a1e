#include "locks/async_lock.h"

#include <deque>
#include <string>

namespace keyway::detail {

namespace {

// Resumes a coroutine of which no scheduler is known, on the thread that released the lock. One that releases the lock
// in its turn resumes the next only after it has returned: the stack does not grow with the line.
void resume_here(std::coroutine_handle<> coroutine) {
  static thread_local std::deque<std::coroutine_handle<>>* queue = nullptr;
  if (queue != nullptr) {
    queue->push_back(coroutine);
    return;
  }
  std::deque<std::coroutine_handle<>> coroutines{coroutine};
  queue = &coroutines;
  while (!coroutines.empty()) {
    const std::coroutine_handle<> next = coroutines.front();
    coroutines.pop_front();
    next.resume();
  }
  queue = nullptr;
}

}  // namespace

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
  if (const Result<void> begun = wait_.begin(nullptr); !begun) throw Exception(begun.error());
  since = context_ != nullptr ? context_->scheduler->now() : std::chrono::steady_clock::now();
  if (context_ != nullptr && context_->stop.stop_possible()) {
    on_stop_.emplace(context_->stop, OnStop{this});
  }
  const LockTable::Entered entered = table_.acquire_or_wait(key_, hash_, *this);
  return entered == LockTable::Entered::kIsFirst || entered == LockTable::Entered::kWaits;
}

LockTable::Held AsyncLock::end() {
  on_stop_.reset();  // waits for a callback that runs elsewhere just now
  wait_.end();
  if (cancelled) {
    throw CancelledError("the task was cancelled while it waited for key \"" + std::string(key_) +
                         '"');
  }
  if (operation == nullptr) return {entry, 0, mode};
  ++operation->locks_held;
  return {entry, operation->id(), mode};
}

void AsyncLock::stop() {
  if (table_.withdraw(hash_, *this, /*cancels=*/true)) resume();
}

void AsyncLock::resume() {
  if (context_ != nullptr) {
    resumption_.post(coroutine_, *context_);
  } else {
    resume_here(coroutine_);
  }
}

}  // namespace keyway::detail
