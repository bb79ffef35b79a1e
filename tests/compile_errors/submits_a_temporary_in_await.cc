// expect first: name the call: auto submit = executor.submit_async.*auto handle = co_await submit
#include <memory>

#include "keyway/group_executor.h"

#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
keyway::Task<void> submit(keyway::GroupExecutor& executor) {
  auto named = [owner = std::make_unique<int>(1)] { return *owner; };
  auto handle = co_await executor.submit_async("key", std::move(named));
}
#else
#error Only g++ 12 must be told: name the call: auto submit = executor.submit_async(...); auto handle = co_await submit;
#endif
