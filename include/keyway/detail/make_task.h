// Makes a task from a callable and an id or TaskOptions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

#include "keyway/detail/kept_value.h"
#include "keyway/detail/task_node.h"
#include "keyway/task_options.h"

namespace keyway::detail {

// Returns the hash of a key. Throws if the text cannot be a key; the message calls it `what`.
std::size_t require_key(std::string_view key, std::string_view what = "group key");
void require_id(std::string_view id);
void require_options(std::string_view key, const TaskOptions& options);
[[noreturn]] void throw_null_callable(std::string_view key, std::string_view id);
[[noreturn]] void throw_cannot_share(std::string_view key, std::string_view id);

// A null function pointer or an empty std::function cannot be a task.
template <class F>
void require_callable(const F& callable, std::string_view key, std::string_view id) {
  if constexpr (!std::is_function_v<F> && requires { callable == nullptr; }) {
    if (callable == nullptr) throw_null_callable(key, id);
  }
}

// Writes the options into the task. REQUIRES: it has extras.
void set_options(TaskCore& task, const TaskOptions& options);

template <class F>
auto& make_task(TaskOwner& owner, std::uint32_t references, std::string_view key,
                std::string_view id, F&& callable) {
  require_id(id);
  require_callable(callable, key, id);
  return TaskNode<std::decay_t<F>>::make(owner, references, key, id, std::forward<F>(callable));
}

template <class F>
auto& make_task(TaskOwner& owner, std::uint32_t references, std::string_view key,
                const TaskOptions& options, F&& callable) {
  using Node = TaskNode<std::decay_t<F>>;
  require_id(options.id);
  require_callable(callable, key, options.id);
  require_options(key, options);
  constexpr bool kCopies = kCanBeCopied<typename Node::KeptType>;
  if (!kCopies && options.conflation == Conflation::kShareResult) {
    throw_cannot_share(key, options.id);
  }
  const bool has_extras = options != TaskOptions{.id = options.id};
  Node& task =
      Node::make(owner, references, key, options.id, std::forward<F>(callable), has_extras);
  if (has_extras) {
    set_options(task, options);
    if constexpr (kCopies) task.extras().copy_result = &Node::copy_result;
  }
  return task;
}

}  // namespace keyway::detail
