#include "sources/file/readiness_watch.h"

#include <utility>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "keyway/detail/check.h"

namespace keyway {

ReadinessWatch::ReadinessWatch(int descriptor, std::function<void()> ready)
    : descriptor_(descriptor), ready_(std::move(ready)), stop_event_(eventfd(0, EFD_CLOEXEC)) {
  KEYWAY_CHECK(stop_event_.is_open(), "no eventfd: too many files are open");
  thread_ = std::thread([this] { watch(); });
}

ReadinessWatch::~ReadinessWatch() {
  stop_ = true;
  const std::uint64_t one = 1;
  (void)!write(stop_event_.get(), &one, sizeof one);
  wanted_.release();
  thread_.join();
}

void ReadinessWatch::arm() {
  if (!armed_.exchange(true)) wanted_.release();
}

bool ReadinessWatch::is_ready(int descriptor) {
  pollfd one{descriptor, POLLIN, 0};
  return ::poll(&one, 1, 0) > 0;
}

void ReadinessWatch::watch() {
  while (true) {
    wanted_.acquire();
    pollfd both[] = {{descriptor_, POLLIN, 0}, {stop_event_.get(), POLLIN, 0}};
    while (!stop_ && ::poll(both, 2, -1) < 0) {
    }
    if (stop_) return;
    // Before the call: whoever it wakes may arm again at once.
    armed_ = false;
    ready_();
  }
}

}  // namespace keyway
