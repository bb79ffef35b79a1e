// expect: write co_await in front of it
// flags: -Werror
#include "keyway/task.h"

keyway::Task<void> look() {
  keyway::current_stop_token();
  co_return;
}
