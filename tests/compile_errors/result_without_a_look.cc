// expect: look at its status
// flags: -Werror
#include "keyway/group_executor.h"

void wait(keyway::GroupExecutor& executor) {
  auto handle = executor.submit("key", [] {});
  handle.join();
}
