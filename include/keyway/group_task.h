// A task that is described now and submitted later, many at a time: see GroupExecutor::execute_all.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <type_traits>
#include <utility>

#include "keyway/detail/task_node.h"
#include "keyway/error.h"
#include "keyway/task_options.h"

namespace keyway {

namespace detail {

// Throws for one that cannot be a key; otherwise gives its hash.
std::size_t require_key(std::string_view key);
void require_id(std::string_view id);
void require_options(const TaskOptions& options);
[[noreturn]] void throw_null_callable(std::string_view key, std::string_view id);

// A null function pointer or an empty std::function is no task.
template <class F>
void require_callable(const F& callable, std::string_view key, std::string_view id) {
  if constexpr (!std::is_function_v<F> && requires { callable == nullptr; }) {
    if (callable == nullptr) throw_null_callable(key, id);
  }
}

// A callable of any type, move-only ones too.
template <class T>
class AnyTask {
 public:
  template <class F>
  explicit AnyTask(F callable) : callable_(std::make_unique<Holder<F>>(std::move(callable))) {}
  T operator()(std::stop_token stop) { return callable_->call(std::move(stop)); }

 private:
  struct Base {
    virtual ~Base() = default;
    virtual T call(std::stop_token stop) = 0;
  };
  template <class F>
  struct Holder final : Base {
    explicit Holder(F f) : callable(std::move(f)) {}
    T call(std::stop_token stop) override {
      if constexpr (kTakesStopToken<F>) {
        return std::invoke(callable, std::move(stop));
      } else {
        return std::invoke(callable);
      }
    }
    F callable;
  };
  std::unique_ptr<Base> callable_;
};

}  // namespace detail

// Throws Exception (kInvalidArgument) for an empty key or a null callable.
template <class T>
class GroupTask {
 public:
  template <class F>
  GroupTask(std::string key, std::string id, F callable)
      : group_key(std::move(key)),
        task_id(std::move(id)),
        task((detail::require_key(group_key), detail::require_id(task_id),
              detail::require_callable(callable, group_key, task_id), std::move(callable))) {}

  std::string group_key;
  std::string task_id;
  detail::AnyTask<T> task;
};

}  // namespace keyway
