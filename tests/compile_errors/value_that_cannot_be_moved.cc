// expect: ReturnsAMovableValue
#include <mutex>

#include "keyway/group_executor.h"

void submit(keyway::GroupExecutor& executor) {
  static_cast<void>(executor.submit("key", [] { return std::mutex(); }));
}
