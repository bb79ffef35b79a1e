#include "keyway/group_executor.h"

int main() {
  keyway::GroupExecutor executor({});
  return executor.submit("vip", "task-1", [] { return 0; }).join().value();
}
