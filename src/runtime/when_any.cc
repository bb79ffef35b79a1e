#include "keyway/when_any.h"

#include "base/human_text.h"

namespace keyway::detail {

void throw_no_tasks() {
  throw Exception({ErrorCode::kInvalidArgument,
                   "when_any() of no tasks would never end; give it at least one"});
}

void throw_timed_out(Duration timeout) {
  throw TimeoutError("the coroutine of with_timeout() did not end within " +
                     human_duration(timeout) + "; it was asked to stop, and has ended");
}

Task<void> pass_time(Duration time, bool* over) {
  co_await SleepAwaiter(time, /*needs_permits=*/false);
  *over = true;
}

}  // namespace keyway::detail
