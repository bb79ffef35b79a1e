#include "exec/file_changes.h"

#include <algorithm>
#include <cerrno>

#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

namespace keyway::exec {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kShortest(1);
constexpr milliseconds kLongest(1000);
constexpr milliseconds kUnwatched(50);

}  // namespace

FileChanges::FileChanges(const std::string& path)
    : watch_(inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
  if (!watch_.is_open()) return;
  const int added = inotify_add_watch(watch_.get(), path.c_str(), IN_MODIFY | IN_CLOSE_WRITE);
  if (added < 0) watch_.close();
}

int FileChanges::wait() {
  pollfd watched{.fd = watch_.get(), .events = POLLIN, .revents = 0};
  const int ready = poll(&watched, 1, static_cast<int>(pause_.count()));
  if (ready < 0) return errno;
  if (ready == 0) {
    pause_ = std::min(2 * pause_, watch_.is_open() ? kLongest : kUnwatched);
    return 0;
  }
  alignas(inotify_event) char events[4096];
  while (read(watch_.get(), events, sizeof events) > 0) {
  }
  pause_ = kShortest;
  return 0;
}

}  // namespace keyway::exec
