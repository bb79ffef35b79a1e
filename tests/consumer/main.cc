#include <cstdio>
#include <stop_token>

#include <keyway/group_executor.h>

int main() {
  int unused = 0;  // fails to compile if Keyway's own warning flags leak into this project

  keyway::GroupExecutor executor({.default_group = {.max_concurrency = 1}});
  auto handle = executor.submit("key", "task", [](std::stop_token) { return 42; });
  const auto result = handle.join();
  std::puts("consumer: one task ran to its end");
  return 0;
}
