#include <stop_token>

#include <keyway/group_executor.h>

int main() {
  keyway::GroupExecutor executor({.groups = {{"vip", {.max_concurrency = 4}}}});
  auto first = executor.submit("vip", "first", [] { return 40; });
  auto second = executor.submit("tenant", "second", [](std::stop_token) { return 2; });
  return first.join().value() + second.join().value() == 42 ? 0 : 1;
}
