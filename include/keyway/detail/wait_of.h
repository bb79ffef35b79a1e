// How when_any(), when_all() and with_timeout() wait for something other than a Task.
#pragma once

#include "keyway/detail/require_cpp20.h"

#include <type_traits>
#include <utility>
#include <variant>

#include "keyway/task.h"

namespace keyway::detail {

// The wait for an A, which has a name and outlives the wait. Specialised next to A. It has
//   - Value: what co_await gives;
//   - begin(): a Task that ends with the wait, and throws on a stop request;
//   - end(): the value. Called with what the Task gave, and only if nothing was given up: a result that can be
//     taken once stays where it is;
//   - timed_out(timeout): called in the handler of a TimeoutError. Throws, unless end() has a value all the same.
template <class A>
struct WaitOf;

template <class A>
inline constexpr bool kIsTask = Unwrapped<std::remove_cvref_t<A>>::kIsCoroutine;

template <class A>
concept HasWait = requires { typename WaitOf<std::remove_cvref_t<A>>::Value; };
template <class A>
concept TaskOrHasWait = kIsTask<A> || HasWait<A>;

// A Task among others: it moves in here, and has no name.
template <class T>
struct WaitOf<Task<T>> {
  using Value = NonVoid<T>;
  explicit WaitOf(Task<T>&& its_task) : task(std::move(its_task)) {}
  Task<T> begin() { return std::move(task); }
  Value end(Value value) { return value; }
  Task<T> task;
};

}  // namespace keyway::detail
