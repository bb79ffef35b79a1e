// expect: CanBeStoredInATask
#include <memory>

#include "keyway/group_executor.h"

void submit(keyway::GroupExecutor& executor) {
  const auto callable = [owner = std::make_unique<int>(1)] { return *owner; };
  static_cast<void>(executor.submit("key", callable));
}
