// Tasks of Keyway, awaited in coroutines of Asio.
//
// A boost::asio::awaitable awaits only operations of Asio: co_await of a TaskHandle does not compile in it. async_wait() below
// makes such an operation of a handle. It awaits the handle in a coroutine of a type that awaits anything, and completes the
// operation with the task's result.
#include <coroutine>
#include <exception>
#include <iostream>
#include <utility>

#include <boost/asio.hpp>

#include "keyway/group_executor.h"

namespace asio = boost::asio;

namespace {

// A coroutine that starts at once, and whose end nothing awaits. It has no await_transform, so it can await a handle.
struct Detached {
  struct promise_type {
    Detached get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

template <class T, class Handler>
Detached complete(keyway::TaskHandle<T> handle, Handler handler) {
  const auto executor = asio::get_associated_executor(handler);
  const auto guard = asio::make_work_guard(executor);  // the threads must not end before the task
  std::exception_ptr error;
  keyway::GroupResult<T> result;
  try {
    result = co_await handle;  // goes on on a thread of the task's executor
  } catch (...) {
    error = std::current_exception();  // RejectedError
  }
  asio::dispatch(executor,
                 [handler = std::move(handler), error, result = std::move(result)]() mutable {
                   std::move(handler)(error, std::move(result));
                 });
}

// keyway::GroupResult<T> result = co_await async_wait(std::move(handle), asio::use_awaitable);
template <class T, class Token>
auto async_wait(keyway::TaskHandle<T> handle, Token&& token) {
  return asio::async_initiate<Token, void(std::exception_ptr, keyway::GroupResult<T>)>(
      [](auto handler, keyway::TaskHandle<T> awaited) {
        complete(std::move(awaited), std::move(handler));
      },
      token, std::move(handle));
}

asio::awaitable<int> handle_request(keyway::GroupExecutor* executor) {
  auto handle = executor->submit("vip", "fetch", [] { return 40; });
  keyway::GroupResult<int> result = co_await async_wait(std::move(handle), asio::use_awaitable);
  co_return result.value() + 2;
}

}  // namespace

int main() {
  asio::thread_pool threads(1);
  keyway::GroupExecutor executor({}, threads.get_executor(), {.threads = 1});
  std::future<int> answer = asio::co_spawn(threads, handle_request(&executor), asio::use_future);
  std::cout << answer.get() << '\n';  // 42
}
