// A task that is described now and submitted later, many at a time: see GroupExecutor::execute_all.
#pragma once

#include "keyway/detail/require_cpp20.h"

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "keyway/detail/make_task.h"
#include "keyway/error.h"
#include "keyway/task_callable.h"
#include "keyway/task_options.h"

namespace keyway {

namespace detail {

template <class F, class T>
inline constexpr bool kGivesExactly = std::is_same_v<TaskValueOf<F>, T>;
// Whether the callable's value is T, or, for a plain callable, converts to T.
template <class F, class T>
concept GivesTheValueOfTheGroupTask =
    kGivesExactly<F, T> || (!kIsCoroutine<std::decay_t<F>> && !std::is_void_v<T> &&
                            std::is_convertible_v<TaskValueOf<F>, T>);

// A callable of any type whose task has a value of type T.
template <class T>
class AnyTask {
 public:
  template <class F>
  explicit AnyTask(F callable) : holder_(std::make_unique<Holder<F>>(std::move(callable))) {}

  // Makes a task with two references. It moves the callable into the task.
  TaskCore& make(TaskOwner& owner, std::string_view key, const TaskOptions& options) {
    return holder_->make(owner, key, options);
  }

 private:
  struct Base {
    virtual ~Base() = default;
    virtual TaskCore& make(TaskOwner& owner, std::string_view key, const TaskOptions& options) = 0;
  };
  template <class F>
  struct Holder final : Base {
    explicit Holder(F f) : callable(std::move(f)) {}
    TaskCore& make(TaskOwner& owner, std::string_view key, const TaskOptions& options) override {
      if constexpr (kGivesExactly<F, T>) {
        return make_task(owner, 2, key, options, std::move(callable));
      } else {
        auto converting = [f = std::move(callable)](std::stop_token stop) mutable -> T {
          if constexpr (kTakesStopToken<F>) {
            return std::invoke(f, std::move(stop));
          } else {
            return std::invoke(f);
          }
        };
        return make_task(owner, 2, key, options, std::move(converting));
      }
    }
    F callable;
  };
  std::unique_ptr<Base> holder_;
};

}  // namespace detail

// T: the type of the task's value; if the callable returns a Task<T>, that T.
// Throws Exception (kInvalidArgument) for an empty key, a null callable, or options out of range.
template <class T>
class GroupTask {
 public:
  template <TaskCallable F>
    requires detail::GivesTheValueOfTheGroupTask<F, T>
  GroupTask(std::string key, F callable)
      : GroupTask(std::move(key), TaskOptions{}, std::move(callable)) {}

  template <TaskId Id, TaskCallable F>
    requires detail::GivesTheValueOfTheGroupTask<F, T>
  GroupTask(std::string key, const Id& id, F callable)
      : GroupTask(std::move(key), TaskOptions{.id = id}, std::move(callable)) {}

  template <TaskCallable F>
    requires detail::GivesTheValueOfTheGroupTask<F, T>
  GroupTask(std::string key, const TaskOptions& options, F callable)
      : group_key_(std::move(key)),
        task_id_(options.id),
        options_(options),
        callable_((detail::require_key(group_key_), detail::require_id(task_id_),
                   detail::require_options(group_key_, options),
                   detail::require_callable(callable, group_key_, task_id_), std::move(callable))) {
    options_.id = {};  // it would refer to the caller's text
  }

  const std::string& group_key() const { return group_key_; }
  const std::string& task_id() const { return task_id_; }
  // Without the id.
  const TaskOptions& options() const { return options_; }

 private:
  friend class GroupExecutor;

  detail::TaskCore& make(detail::TaskOwner& owner) {
    TaskOptions options = options_;
    options.id = task_id_;
    return callable_.make(owner, group_key_, options);
  }

  std::string group_key_;
  std::string task_id_;
  TaskOptions options_;
  detail::AnyTask<T> callable_;
};

}  // namespace keyway
