#include "exec/foreground.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <optional>

#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/system_error.h"

namespace keyway::exec {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPassedOn[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

int status_of(pid_t pid) {
  int state = 0;
  while (waitpid(pid, &state, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(state) ? 128 + WTERMSIG(state) : WEXITSTATUS(state);
}

void pass_on_signals(int signals, pid_t pid) {
  signalfd_siginfo info{};
  while (read(signals, &info, sizeof info) == sizeof info) {
    // What the terminal sends (SI_KERNEL), the command has got already.
    if (info.ssi_code <= 0) kill(pid, static_cast<int>(info.ssi_signo));
  }
}

int milliseconds_until(std::optional<Clock::time_point> time) {
  if (!time) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*time - Clock::now()).count();
  return static_cast<int>(std::clamp<long long>(left, 0, 60'000));
}

}  // namespace

CommandEnd run_in_foreground(const ForegroundCommand& command) {
  sigset_t passed_on;
  sigemptyset(&passed_on);
  for (const int number : kPassedOn) sigaddset(&passed_on, number);
  pthread_sigmask(SIG_BLOCK, &passed_on, nullptr);
  const FileDescriptor signals(signalfd(-1, &passed_on, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals.is_open()) {
    return {.status = 125, .failure = "cannot wait for signals: " + errno_text(errno)};
  }
  const Spawned spawned = spawn_child({.argv = command.argv,
                                       .environment = command.environment,
                                       .inherited = command.inherited,
                                       .in_foreground = true,
                                       .group_record = command.pid_record});
  if (!spawned.ok()) {
    return {.status = spawned.failure.status, .failure = spawned.failure.message};
  }
  const pid_t pid = spawned.child.pid;
  CommandEnd end;
  std::optional<Clock::time_point> act_at;
  if (command.timeout.count() > 0) act_at = Clock::now() + command.timeout;
  while (true) {
    pollfd ready[] = {{.fd = spawned.child.pidfd.get(), .events = POLLIN, .revents = 0},
                      {.fd = signals.get(), .events = POLLIN, .revents = 0}};
    poll(ready, 2, milliseconds_until(act_at));
    if (ready[0].revents != 0) break;
    if (ready[1].revents != 0) pass_on_signals(signals.get(), pid);
    if (!act_at || Clock::now() < *act_at) continue;
    kill(pid, end.timed_out ? SIGKILL : SIGTERM);
    act_at = end.timed_out ? std::nullopt : std::optional(Clock::now() + command.kill_after);
    end.timed_out = true;
  }
  end.status = status_of(pid);
  return end;
}

}  // namespace keyway::exec
