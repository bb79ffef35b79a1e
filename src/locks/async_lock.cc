#include "locks/async_lock.h"

#include <string>
#include <utility>

#include "base/quoted.h"
#include "keyway/detail/check.h"
#include "keyway/thread_pool.h"

namespace keyway::detail {

namespace {

// Where a coroutine goes on that is not a keyway::Task: never on the stack of the caller, which has just released the lock
// or ended a wait, and is in the middle of an operation. A driven scheduler runs the coroutine itself, as it runs everything.
Scheduler& scheduler_of_foreign() {
  Scheduler* const here = Scheduler::current();
  if (here == nullptr) return background_pool();
  Scheduler* const background = here->background();
  return background != nullptr ? *background : *here;
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

AsyncLock::~AsyncLock() {
  if (coroutine_ == nullptr) return;
  on_stop_.reset();  // waits for a callback that runs elsewhere just now
  const bool stood_in_line = entry == nullptr || wait_.leave_line();
  KEYWAY_CHECK(
      stood_in_line,
      "a coroutine is destroyed that is about to go on, because its wait for a lock is over");
}

bool AsyncLock::begin(std::coroutine_handle<> coroutine) {
  coroutine_ = coroutine;
  begin_clock(context_ != nullptr ? context_->scheduler : nullptr);
  if (context_ != nullptr && context_->stop.stop_possible()) {
    on_stop_.emplace(context_->stop, OnStop{this});
  }
  const Result<void> begun = wait_.begin(/*blocks=*/false);
  if (!begun && wait_.leave_line()) {
    coroutine_ = nullptr;
    throw Exception(begun.error());
  }
  // acq_rel: `cancelled` is written before leave_line(), and read after it.
  const bool goes_on =
      !wait_.stands_in_line() || first_has_come_.exchange(true, std::memory_order_acq_rel);
  if (!goes_on) return true;  // another thread may resume it by now: nothing of this may be touched
  if (context_ == nullptr) return false;
  wait_.end(*this);  // it goes on when it has its permits, perhaps at once
  return true;
}

LockTable::Held AsyncLock::end() {
  coroutine_ = nullptr;
  on_stop_.reset();  // waits for a callback that runs elsewhere just now
  wait_.forget();
  if (refusal != nullptr) throw Exception(*std::move(refusal));
  if (cancelled) {
    throw CancelledError("the task was cancelled while it waited for key " + quoted(key_));
  }
  if (operation == nullptr) return {entry, 0, mode};
  operation->count_lock(table_.lock_id(hash_));
  return {entry, operation->id(), mode};
}

void AsyncLock::stop() {
  if (wait_.leave_line(/*cancels=*/true)) leave_line();
}

void AsyncLock::leave_line() {
  if (first_has_come_.exchange(true, std::memory_order_acq_rel)) wait_.end(*this);
}

void AsyncLock::wake() noexcept {
  if (context_ != nullptr) {
    resumption_.post(coroutine_, *context_);
  } else {
    resumption_.post(coroutine_, scheduler_of_foreign());
  }
}

}  // namespace keyway::detail
