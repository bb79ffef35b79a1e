// Takes the signals of the process for as long as it lives: SIGINT, SIGTERM, SIGHUP and SIGUSR1, on
// the loop's thread. Those that are ignored (nohup) stay so. SIGPIPE is ignored. Afterwards signals
// are as they were.
//
// Thread safety: the loop's thread. Lifetime: not longer than the loop's. One at a time in a process.
#pragma once

#include <csignal>
#include <functional>

#include "base/file_descriptor.h"
#include "process/event_loop.h"

namespace keyway::jobs {

class Signals final : private Watcher {
 public:
  Signals(EventLoop& loop, std::function<void(int signal)> received);
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

 private:
  void ready(std::uint32_t events) override;

  EventLoop& loop_;
  const std::function<void(int)> received_;
  sigset_t taken_{};
  sigset_t before_{};
  struct sigaction pipe_before_{};
  FileDescriptor descriptor_;
};

}  // namespace keyway::jobs
