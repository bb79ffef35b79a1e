// expect: write execute_all.std::move.tasks..
#include <vector>

#include "keyway/group_executor.h"

void execute(keyway::GroupExecutor& executor, std::vector<keyway::GroupTask<int>> tasks) {
  static_cast<void>(executor.execute_all(tasks));
}
