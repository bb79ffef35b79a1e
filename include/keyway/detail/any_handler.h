// A pipeline's handler, whatever it takes and gives.
#pragma once

#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

#include "keyway/batch.h"
#include "keyway/outcome.h"
#include "keyway/record.h"
#include "keyway/task.h"

namespace keyway::detail {

// One of them.
struct AnyHandler {
  std::function<Outcome(const Record&, const Attempt&)> plain;
  std::function<Task<Outcome>(const Record&, const Attempt&)> coroutine;
  std::function<Task<std::vector<Outcome>>(const Batch&)> batch;
};

template <class T>
Task<Outcome> as_outcome(Task<T> handled) {
  if constexpr (std::is_void_v<T>) {
    co_await std::move(handled);
    co_return done();
  } else {
    co_return co_await std::move(handled);
  }
}

inline std::vector<Outcome> outcomes_of(std::vector<Outcome> outcomes, std::size_t) {
  return outcomes;
}
inline std::vector<Outcome> outcomes_of(const Outcome& outcome, std::size_t records) {
  return std::vector<Outcome>(records, outcome);
}

// `handler` outlives the coroutine: it is the pipeline's.
template <class F>
Task<std::vector<Outcome>> call_batch(F* handler, const Batch* batch) {
  using Raw = std::invoke_result_t<F&, const Batch&>;
  const std::size_t records = batch->size();
  if constexpr (std::is_void_v<Raw>) {
    (*handler)(*batch);
    co_return outcomes_of(done(), records);
  } else if constexpr (!Unwrapped<Raw>::kIsCoroutine) {
    co_return outcomes_of((*handler)(*batch), records);
  } else if constexpr (std::is_same_v<Raw, Task<void>>) {
    co_await (*handler)(*batch);
    co_return outcomes_of(done(), records);
  } else {
    co_return outcomes_of(co_await (*handler)(*batch), records);
  }
}

template <class F>
AnyHandler make_record_handler(F handler) {
  auto call = [handler = std::move(handler)](const Record& record, const Attempt& attempt) mutable {
    if constexpr (std::is_invocable_v<F&, const Record&, const Attempt&>) {
      return handler(record, attempt);
    } else {
      return handler(record);
    }
  };
  using Call = decltype(call);
  using Raw = std::invoke_result_t<Call&, const Record&, const Attempt&>;
  AnyHandler made;
  if constexpr (std::is_same_v<Raw, Task<Outcome>>) {
    made.coroutine = call;
  } else if constexpr (Unwrapped<Raw>::kIsCoroutine) {
    made.coroutine = [call](const Record& record, const Attempt& attempt) mutable {
      return as_outcome(call(record, attempt));
    };
  } else if constexpr (std::is_void_v<Raw>) {
    made.plain = [call](const Record& record, const Attempt& attempt) mutable {
      call(record, attempt);
      return done();
    };
  } else {
    made.plain = call;
  }
  return made;
}

[[noreturn]] void throw_null_handler();

template <class F>
AnyHandler make_handler(F handler) {
  if constexpr (requires { handler == nullptr; }) {
    if (handler == nullptr) throw_null_handler();
  }
  if constexpr (std::is_invocable_v<F&, const Batch&>) {
    AnyHandler made;
    made.batch = [handler = std::move(handler)](const Batch& batch) mutable {
      return call_batch(&handler, &batch);
    };
    return made;
  } else {
    return make_record_handler(std::move(handler));
  }
}

}  // namespace keyway::detail
