// The concept of callables that can be submitted as tasks.
#pragma once

#include "keyway/detail/require_cpp20.h"

#include <concepts>
#include <stop_token>
#include <string_view>
#include <type_traits>

#include "keyway/detail/task_node.h"

namespace keyway {

namespace detail {

// Named for compiler messages.
template <class F>
concept CanBeStoredInATask = std::constructible_from<std::decay_t<F>, F>;
template <class F>
concept TakesNothingOrAStopToken =
    std::is_invocable_v<std::decay_t<F>&> || std::is_invocable_v<std::decay_t<F>&, std::stop_token>;
template <class T>
concept VoidOrReferenceOrMovable = std::is_void_v<T> || std::is_lvalue_reference_v<T> ||
                                   (std::is_object_v<T> && std::move_constructible<T>);
template <class F>
concept ReturnsAMovableValue = VoidOrReferenceOrMovable<TaskValue<std::decay_t<F>>>;

}  // namespace detail

// A callable that takes nothing or a std::stop_token, and returns nothing, a reference, a value
// that can be moved, or a Task of one of these. It may be move-only. A submit throws Exception
// (kInvalidArgument) for a null function pointer and for an empty std::function.
template <class F>
concept TaskCallable = detail::CanBeStoredInATask<F> && detail::TakesNothingOrAStopToken<F> &&
                       detail::ReturnsAMovableValue<F>;

// The type of the value of a task made of F: what F returns, or the value of its coroutine.
template <class F>
using TaskValueOf = detail::TaskValue<std::decay_t<F>>;

// The id of a task: any type that converts to a string_view, but not {}.
template <class Id>
concept TaskId = std::convertible_to<const Id&, std::string_view>;

}  // namespace keyway
