// Coroutine types that do not belong to Keyway: they start at once.
#pragma once

#include <coroutine>
#include <exception>

namespace keyway {

// Nothing waits for its end.
struct ForeignCoroutine {
  struct promise_type {
    ForeignCoroutine get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

// A coroutine that its owner destroys.
class OwnedCoroutine {
 public:
  struct promise_type {
    OwnedCoroutine get_return_object() {
      return OwnedCoroutine(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
  explicit OwnedCoroutine(std::coroutine_handle<> coroutine) : coroutine_(coroutine) {}
  ~OwnedCoroutine() { coroutine_.destroy(); }
  OwnedCoroutine(const OwnedCoroutine&) = delete;
  OwnedCoroutine& operator=(const OwnedCoroutine&) = delete;

 private:
  std::coroutine_handle<> coroutine_;
};

}  // namespace keyway
