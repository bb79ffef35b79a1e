#include "exec/interrupts.h"

#include <algorithm>
#include <cerrno>

#include <sys/syscall.h>
#include <unistd.h>

#include "keyway/detail/check.h"

namespace keyway::exec {

namespace {

constexpr long kAgainNanoseconds = 5'000'000;

// What a handler can reach.
timer_t timer;
volatile std::sig_atomic_t last_signal = 0;

void wake_now() {
  const itimerspec often{.it_interval = {0, kAgainNanoseconds}, .it_value = {0, 1}};
  timer_settime(timer, 0, &often, nullptr);
}

void on_signal(int number) {
  if (number == SIGALRM) return;  // it has ended a call: that is all
  const int kept = errno;
  last_signal = number;
  // The call that should see this may not have begun yet.
  wake_now();
  errno = kept;
}

}  // namespace

Interrupts::Interrupts() {
  last_signal = 0;
  sigevent to_this_thread{};
  to_this_thread.sigev_notify = SIGEV_THREAD_ID;
  to_this_thread.sigev_signo = SIGALRM;
  to_this_thread._sigev_un._tid = static_cast<pid_t>(syscall(SYS_gettid));
  const int made = timer_create(CLOCK_MONOTONIC, &to_this_thread, &timer);
  KEYWAY_CHECK(made == 0, "a process can have a timer");
  struct sigaction action{};
  action.sa_handler = on_signal;  // without SA_RESTART
  sigset_t ours;
  sigemptyset(&ours);
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &before_[i]);
    if (kSignals[i] != SIGALRM && before_[i].sa_handler == SIG_IGN) continue;
    sigaction(kSignals[i], &action, nullptr);
    sigaddset(&ours, kSignals[i]);
  }
  pthread_sigmask(SIG_UNBLOCK, &ours, &mask_before_);
}

Interrupts::~Interrupts() {
  timer_delete(timer);
  pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
  // It came after the last look, and means what it meant before.
  if (last_signal != 0 && !seen_) raise(last_signal);
}

void Interrupts::wake_at(std::optional<Clock::time_point> time) {
  itimerspec when{};
  if (time) {
    const auto since = std::max(time->time_since_epoch(), Clock::duration(1));
    const auto whole = std::chrono::duration_cast<std::chrono::seconds>(since);
    when.it_value = {whole.count(), (since - whole).count()};
    when.it_interval = {0, kAgainNanoseconds};
  }
  timer_settime(timer, TIMER_ABSTIME, &when, nullptr);
  // The handler may have set the timer just before.
  if (last_signal != 0) wake_now();
}

int Interrupts::signal() {
  const int number = last_signal;
  if (number != 0) seen_ = true;
  return number;
}

}  // namespace keyway::exec
