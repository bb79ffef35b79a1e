// expect: write co_await std::move.task.
#include "keyway/task.h"

keyway::Task<int> answer() { co_return 42; }
keyway::Task<int> twice() {
  keyway::Task<int> task = answer();
  co_return co_await task;
}
