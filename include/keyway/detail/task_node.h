// A TaskCore with a callable of a known type behind it.
#pragma once

#include "keyway/detail/require_cpp20.h"

#include <concepts>
#include <coroutine>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <stop_token>
#include <type_traits>
#include <utility>

#include "keyway/detail/atomic.h"
#include "keyway/detail/block_pool.h"
#include "keyway/detail/kept_value.h"
#include "keyway/detail/task_core.h"
#include "keyway/error.h"
#include "keyway/task.h"

namespace keyway::detail {

template <class F>
inline constexpr bool kTakesStopToken = std::is_invocable_v<F&, std::stop_token>;

// void for a type that cannot be a task: the concept TaskCallable says what is wrong with it.
template <class F>
struct RawResult {
  using type = void;
};
template <class F>
  requires(!kTakesStopToken<F> && std::is_invocable_v<F&>)
struct RawResult<F> {
  using type = std::invoke_result_t<F&>;
};
template <class F>
  requires kTakesStopToken<F>
struct RawResult<F> {
  using type = std::invoke_result_t<F&, std::stop_token>;
};

template <class F>
inline constexpr bool kIsCoroutine = Unwrapped<typename RawResult<F>::type>::kIsCoroutine;

// What a task made of F gives: the value of its coroutine, or what it returns.
template <class F>
using TaskValue = typename Unwrapped<typename RawResult<F>::type>::type;

// What a handle knows of its task: the type of the value, not of the callable.
template <class T>
class ValueNode : public TaskCore {
 public:
  using KeptType = typename Kept<T>::type;

  // REQUIRES: done(), kSuccess.
  KeptType& kept() { return *static_cast<KeptType*>(operations().value(*this)); }

 protected:
  using TaskCore::TaskCore;
  ~ValueNode() = default;
};

// Whether the destructor of a value runs no code of the user's: it is trivial, or Keyway's own and says so.
template <class T>
inline constexpr bool kDestroysSilently = std::is_trivially_destructible_v<T>;
template <class T>
  requires requires { T::kDestructorIsKeyways; }
inline constexpr bool kDestroysSilently<T> = true;

struct NoStop {};
struct NoCoroutine {};

// A coroutine that runs as a task. Its end and the return of the call that started it may come in
// either order, on two threads: the second of them goes on.
template <class T>
class CoroutinePart final : public Completion {
 public:
  // True if it has ended already.
  template <class Make>
  bool start(Make&& make, TaskCore& core, std::stop_token stop) {
    core_ = &core;
    Scheduler* scheduler = &core.owner().scheduler();
    context_.emplace(scheduler, std::move(stop), TaskOperation(nullptr, &core, scheduler));
    // The callable that makes the coroutine is part of it: a lock that it takes belongs to the coroutine.
    auto start = [&] {
      task_.emplace(make());
      TaskAccess::start_here(*task_, *context_, *this);
    };
    // The submitter may run the task, and have locks: until the coroutine is suspended, it waits for the coroutine.
    auto* const call = core.holds_permits() ? &call_as : &call_before_caller_goes_on;
    call(context_->operation, [](void* of) { (*static_cast<decltype(start)*>(of))(); }, &start);
    // acq_rel: the result is written before done(), and read after it.
    return first_has_come_.exchange(true, std::memory_order_acq_rel);
  }
  T take() { return TaskAccess::take(*task_); }
  void destroy_coroutine() { task_.reset(); }
  void end_operation() {
    if (!context_) return;  // it has not begun
    leave_operation(context_->operation);
    context_.reset();
  }

  std::coroutine_handle<> done() noexcept override {
    if (first_has_come_.exchange(true, std::memory_order_acq_rel)) {
      core_->owner().ended_after_suspension(*core_);
    }
    return std::noop_coroutine();
  }

 private:
  TaskCore* core_ = nullptr;
  std::optional<TaskContext> context_;
  std::optional<Task<T>> task_;
  Atomic<bool> first_has_come_{false};
};

template <class F>
class TaskNode final : public ValueNode<TaskValue<F>> {
 public:
  using Value = TaskValue<F>;
  using Base = ValueNode<Value>;

  template <class G>
  static TaskNode& make(TaskOwner& owner, std::uint32_t references, std::string_view key,
                        std::string_view id, G&& callable, bool has_extras = false) {
    const std::size_t size = TaskCore::block_bytes(kOperations, key.size() + id.size(), has_extras);
    void* block = allocate_block(size);
    try {
      auto& task = *new (block) TaskNode(owner, references, key, id, std::forward<G>(callable));
      if (has_extras) task.add_extras();
      return task;
    } catch (...) {
      deallocate_block(block, size);
      throw;
    }
  }

  // See TaskExtras.
  static bool copy_result(TaskCore& core, TaskCore& from, TaskStatus status) {
    TaskNode& self = of(core);
    if (status != TaskStatus::kSuccess) {
      self.replace_callable(from.operations().error(from));
      return true;
    }
    using Stored = typename Base::KeptType;
    try {
      Stored copied(*static_cast<const Stored*>(from.operations().value(from)));
      self.drop_callable();
      new (&self.value_) Stored(std::move(copied));
      return true;
    } catch (...) {
      self.replace_callable(std::current_exception());
      return false;
    }
  }

 private:
  static constexpr bool kCoroutine = kIsCoroutine<F>;
  static_assert(alignof(F) <= 64 && alignof(typename Base::KeptType) <= 64,
                "a callable or value with such an alignment must be held by pointer");
  static constexpr bool kStop = kCoroutine || kTakesStopToken<F>;

  template <class G>
  TaskNode(TaskOwner& owner, std::uint32_t references, std::string_view key, std::string_view id,
           G&& callable)
      : Base(kOperations, owner, references, key, id) {
    new (&callable_) F(std::forward<G>(callable));
  }

  static TaskNode& of(TaskCore& core) { return static_cast<TaskNode&>(core); }

  decltype(auto) invoke() {
    if constexpr (kTakesStopToken<F>) {
      return std::invoke(callable_, stop_.get_token());
    } else {
      return std::invoke(callable_);
    }
  }

  // Puts what `produce` returns, or throws, into the callable's place.
  template <class Produce>
  TaskStatus keep(Produce&& produce) {
    try {
      if constexpr (std::is_void_v<Value>) {
        produce();
        drop_callable();
        new (&value_) std::monostate();
      } else if constexpr (std::is_reference_v<Value>) {
        Value value = produce();
        drop_callable();
        new (&value_) typename Base::KeptType(std::addressof(value));
      } else {
        Value value = produce();
        drop_callable();
        try {
          new (&value_) typename Base::KeptType(std::move(value));
        } catch (...) {
          new (&error_) std::exception_ptr(std::current_exception());
          return TaskStatus::kFailed;
        }
      }
      return TaskStatus::kSuccess;
    } catch (const CancelledError&) {
      replace_callable(std::current_exception());
      return TaskStatus::kCancelled;
    } catch (...) {
      replace_callable(std::current_exception());
      return TaskStatus::kFailed;
    }
  }

  void drop_callable() {
    if constexpr (kCoroutine) coroutine_.destroy_coroutine();
    callable_.~F();  // within the operation of the coroutine
    if constexpr (kCoroutine) coroutine_.end_operation();
  }
  void replace_callable(std::exception_ptr error) {
    drop_callable();
    new (&error_) std::exception_ptr(std::move(error));
  }

  static bool run(TaskCore& core, TaskStatus& status) {
    TaskNode& self = of(core);
    if constexpr (kCoroutine) {
      try {
        if (!self.coroutine_.start([&] { return self.invoke(); }, core, self.stop_.get_token())) {
          return false;
        }
      } catch (...) {  // the callable threw before there was a coroutine
        status = self.keep([&]() -> Value { std::rethrow_exception(std::current_exception()); });
        return true;
      }
      status = collect(core);
    } else {
      status = self.keep([&]() -> decltype(auto) { return self.invoke(); });
    }
    return true;
  }
  static TaskStatus collect(TaskCore& core) {
    if constexpr (kCoroutine) {
      TaskNode& self = of(core);
      return self.keep([&]() -> Value { return self.coroutine_.take(); });
    } else {
      return TaskStatus::kFailed;
    }
  }
  static void drop(TaskCore& core, std::exception_ptr error) {
    of(core).replace_callable(std::move(error));
  }
  static void* value(TaskCore& core) { return &of(core).value_; }
  static std::exception_ptr error(TaskCore& core) { return of(core).error_; }
  static void destroy(TaskCore& core, TaskStatus status) {
    TaskNode& self = of(core);
    if (status == TaskStatus::kSuccess) {
      std::destroy_at(&self.value_);
    } else {
      std::destroy_at(&self.error_);
    }
    self.~TaskNode();
  }
  static bool request_stop(TaskCore& core) {
    if constexpr (kStop) {
      of(core).stop_.request_stop();
      return true;
    } else {
      return false;
    }
  }

  ~TaskNode() {}

  static const TaskOperations kOperations;

  union {  // the callable until it has run, then its value or an error
    F callable_;
    typename Base::KeptType value_;
    std::exception_ptr error_;
  };
  [[no_unique_address]] std::conditional_t<kStop, std::stop_source, NoStop> stop_;
  [[no_unique_address]] std::conditional_t<kCoroutine, CoroutinePart<Value>, NoCoroutine>
      coroutine_;
};

template <class F>
constexpr TaskOperations TaskNode<F>::kOperations{
    .size_bytes = static_cast<std::uint32_t>(sizeof(TaskNode)),
    .is_return = false,
    .is_coroutine = kCoroutine,
    .run = &run,
    .collect = &collect,
    .drop = &drop,
    .value = &value,
    .value_type = &kValueType<Value>,
    .error = &error,
    .destroy = &destroy,
    .over_aligned = alignof(TaskNode) > 16,
    .can_stop = kStop,
    .value_is_silent = kDestroysSilently<typename Base::KeptType>,
    .request_stop = &request_stop,
};

}  // namespace keyway::detail
