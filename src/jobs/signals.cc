#include "jobs/signals.h"

#include <utility>

#include <sys/signalfd.h>
#include <unistd.h>

#include "keyway/detail/check.h"

namespace keyway::jobs {

Signals::Signals(EventLoop& loop, std::function<void(int)> received)
    : loop_(loop), received_(std::move(received)) {
  sigemptyset(&taken_);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
    struct sigaction action{};
    sigaction(signal, nullptr, &action);
    if (action.sa_handler != SIG_IGN) sigaddset(&taken_, signal);
  }
  pthread_sigmask(SIG_BLOCK, &taken_, &before_);
  struct sigaction ignore{};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &pipe_before_);
  descriptor_ = FileDescriptor(signalfd(-1, &taken_, SFD_CLOEXEC | SFD_NONBLOCK));
  const bool watched = descriptor_.is_open() && loop_.watch(descriptor_.get(), *this, EPOLLIN).ok();
  KEYWAY_CHECK(watched, "signals cannot be waited for");
}

Signals::~Signals() {
  loop_.unwatch(descriptor_.get(), *this);
  sigaction(SIGPIPE, &pipe_before_, nullptr);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void Signals::ready(std::uint32_t) {
  signalfd_siginfo info{};
  while (read(descriptor_.get(), &info, sizeof info) == sizeof info) {
    received_(static_cast<int>(info.ssi_signo));
  }
}

}  // namespace keyway::jobs
