// expect: only a keyway::Task can await this
#include <coroutine>

#include "keyway/task.h"

// A coroutine of another library.
struct Foreign {
  struct promise_type {
    Foreign get_return_object() { return {}; }
    std::suspend_never initial_suspend() { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() {}
  };
};

keyway::Task<int> answer();

Foreign wait() { co_await answer(); }
