// What coroutines of tests do.
#pragma once

#include <coroutine>

#include "keyway/task.h"
#include "keyway/task_handle.h"

namespace keyway {

// Suspends a coroutine until the test resumes it.
struct Park {
  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> coroutine) { parked = coroutine; }
  void await_resume() const {}
  std::coroutine_handle<>& parked;
};

inline Task<void> await_one(TaskHandle<void>& handle) { (void)co_await handle; }

}  // namespace keyway
