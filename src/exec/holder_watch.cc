#include "exec/holder_watch.h"

#include <algorithm>
#include <cerrno>

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace keyway::exec {

namespace {

constexpr std::size_t kMostWatched = 200;  // of a thousand descriptors that a process may have

}  // namespace

int HolderWatch::wait(const std::vector<SlotRecord>& holders) {
  std::vector<FileDescriptor> descriptors;
  std::vector<Process> watched;
  std::vector<pollfd> polled;
  for (const SlotRecord& holder : holders) {
    // The slot of a process that is there is its to give back, whatever its command does.
    for (const std::int32_t pid : {holder.pid, holder.command_pid}) {
      const Process process(pid, holder.since_ns);
      if (pid <= 0 || watched.size() >= kMostWatched || ended_.contains(process)) continue;
      FileDescriptor descriptor(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
      if (!descriptor.is_open()) continue;
      polled.push_back({.fd = descriptor.get(), .events = POLLIN, .revents = 0});
      descriptors.push_back(std::move(descriptor));
      watched.push_back(process);
      break;
    }
  }
  const int ready = poll(polled.data(), polled.size(), static_cast<int>(pause_.count()));
  if (ready < 0) return errno;
  // One that ended is not looked at again: it may stay, as a zombie, for as long as it likes.
  for (std::size_t i = 0; i < polled.size(); ++i) {
    if (polled[i].revents != 0) ended_.insert(watched[i]);
  }
  pause_ = ready > 0 ? shortest_ : std::min(2 * pause_, longest_);
  return 0;
}

}  // namespace keyway::exec
