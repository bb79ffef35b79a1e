// expect: write co_await in front of it
// flags: -Werror
#include "keyway/task.h"

keyway::Task<void> nap() {
  keyway::sleep_for(std::chrono::seconds(1));
  co_return;
}
