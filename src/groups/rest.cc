#include "keyway/rest.h"

#include <exception>
#include <utility>

namespace keyway {

Task<void> rest_for(Duration duration) {
  const std::unique_ptr<detail::TaskWait> rest = co_await detail::BeginRest{};
  std::exception_ptr stopped;
  try {
    co_await detail::SleepAwaiter(duration, /*needs_permits=*/rest == nullptr);
  } catch (...) {
    stopped = std::current_exception();
  }
  co_await detail::EndRest(rest.get());
  if (stopped) std::rethrow_exception(stopped);
}

}  // namespace keyway
