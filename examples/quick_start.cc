#include <iostream>

#include <keyway/group_executor.h>

int main() {
  keyway::GroupExecutor executor({.groups = {{"vip", {.max_concurrency = 4}}}});
  auto first = executor.submit("vip", "fetch-1", [] { return 40; });       // up to 4 at once
  auto second = executor.submit("tenant-7", "fetch-2", [] { return 2; });  // no limit given: 1
  std::cout << first.join().value() + second.join().value() << '\n';       // 42
}
