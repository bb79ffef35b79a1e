// expect first: when_any.. gives values: return a pointer
#include <vector>

#include "keyway/when_any.h"

keyway::Task<void> wait(std::vector<keyway::Task<int&>> tasks) {
  co_await keyway::when_any(std::move(tasks));
}
