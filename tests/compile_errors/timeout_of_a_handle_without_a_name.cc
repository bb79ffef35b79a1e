// expect: name it first
#include "keyway/group_executor.h"
#include "keyway/when_any.h"

keyway::Task<int> wait_for(keyway::GroupExecutor& executor) {
  co_return (co_await keyway::with_timeout(std::chrono::seconds(1), executor.submit("key", [] {
    return 1;
  }))).value();
}
