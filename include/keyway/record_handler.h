// The concept of callables that handle the records of a Pipeline.
#pragma once

#include "keyway/detail/require_cpp20.h"

#include <concepts>
#include <type_traits>
#include <vector>

#include "keyway/batch.h"
#include "keyway/outcome.h"
#include "keyway/record.h"
#include "keyway/task.h"

namespace keyway {

namespace detail {

// What a handler returns; void for a type that cannot be called as one.
template <class F>
struct HandlerResult {
  using type = void;
};
template <class F>
  requires std::is_invocable_v<F&, const Batch&>
struct HandlerResult<F> {
  using type = std::invoke_result_t<F&, const Batch&>;
};
template <class F>
  requires(!std::is_invocable_v<F&, const Batch&> &&
           std::is_invocable_v<F&, const Record&, const Attempt&>)
struct HandlerResult<F> {
  using type = std::invoke_result_t<F&, const Record&, const Attempt&>;
};
template <class F>
  requires(!std::is_invocable_v<F&, const Batch&> &&
           !std::is_invocable_v<F&, const Record&, const Attempt&> &&
           std::is_invocable_v<F&, const Record&>)
struct HandlerResult<F> {
  using type = std::invoke_result_t<F&, const Record&>;
};

// Named for compiler messages.
template <class F>
concept HandlerCanBeCopied = std::copy_constructible<F>;
template <class F>
concept TakesARecordOrABatch = std::is_invocable_v<F&, const Batch&> ||
                               std::is_invocable_v<F&, const Record&, const Attempt&> ||
                               std::is_invocable_v<F&, const Record&>;
template <class T, class F>
concept IsAnOutcomeOfIt =
    std::is_void_v<T> || std::convertible_to<T, Outcome> ||
    (std::is_invocable_v<F&, const Batch&> && std::convertible_to<T, std::vector<Outcome>>);
template <class F>
concept ReturnsAnOutcomeOrNothing =
    IsAnOutcomeOfIt<typename Unwrapped<typename HandlerResult<F>::type>::type, F>;

}  // namespace detail

// A callable that takes a Record, a Record and an Attempt, or a Batch, all by const reference. It returns an Outcome,
// nothing, or, for a Batch, a std::vector<Outcome>; or a Task of one of these. It can be copied.
template <class F>
concept RecordHandler = detail::HandlerCanBeCopied<F> && detail::TakesARecordOrABatch<F> &&
                        detail::ReturnsAnOutcomeOrNothing<F>;

}  // namespace keyway
