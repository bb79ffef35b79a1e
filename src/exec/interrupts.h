// Lets a system call that blocks this thread end (EINTR) at a time, or when a signal asks the
// program to end: SIGINT, SIGTERM or SIGHUP.
//
//   Interrupts interrupts;
//   interrupts.wake_at(deadline);
//   while (fcntl(file, F_OFD_SETLKW, &range) != 0 && errno == EINTR) {
//     if (interrupts.signal() != 0 || Clock::now() >= deadline) break;
//   }
//
// Guarantees:
//   (1) From that time or that signal on, calls are ended again and again, every few milliseconds:
//       one that begins a moment too late is ended as well.
//   (2) A signal that was ignored before is not looked at. The destructor restores what was before,
//       and passes on a signal that nobody has asked for.
//
// Thread safety: one object at a time in a process, used by the thread that made it.
#pragma once

#include <array>
#include <chrono>
#include <csignal>
#include <ctime>
#include <optional>

namespace keyway::exec {

class Interrupts {
 public:
  using Clock = std::chrono::steady_clock;

  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  // Instead of the time before; none: only signals.
  void wake_at(std::optional<Clock::time_point> time);
  // The last one that came; 0: none.
  int signal();

 private:
  static constexpr std::array<int, 4> kSignals = {SIGALRM, SIGINT, SIGTERM, SIGHUP};

  std::array<struct sigaction, kSignals.size()> before_{};
  sigset_t mask_before_{};
  bool seen_ = false;
};

}  // namespace keyway::exec
