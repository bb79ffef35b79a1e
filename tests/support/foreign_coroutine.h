// A coroutine type that does not belong to Keyway: it starts at once, and nothing waits for its end.
#pragma once

#include <coroutine>
#include <exception>

namespace keyway {

struct ForeignCoroutine {
  struct promise_type {
    ForeignCoroutine get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

}  // namespace keyway
