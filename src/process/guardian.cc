#include "process/guardian.h"

#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/system_error.h"
#include "keyway/detail/check.h"

namespace keyway {

namespace {

// The lifeline carries one byte if all is well, and nothing if the parent died.
[[noreturn]] void watch_over(int lifeline, const volatile int* groups, std::size_t size) {
  setsid();  // what is sent to the parent's group or terminal is not for the guardian
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  prctl(PR_SET_NAME, "keyway-guardian");
  // Nothing is kept open that others wait to see closed, or that belongs to a run.
  if (chdir("/") != 0) _exit(1);
  if (lifeline != 0) dup2(lifeline, 0);
  close_range(1, ~0U, 0);
  char word = 0;
  ssize_t got = 0;
  do {
    got = read(0, &word, 1);
  } while (got < 0 && errno == EINTR);
  if (got == 0) {
    for (std::size_t i = 0; i < size; ++i) {
      if (groups[i] > 1) kill(-groups[i], SIGKILL);
    }
  }
  _exit(0);
}

}  // namespace

Guardian::Guardian(std::size_t most_groups) : size_(most_groups) {
  void* memory =
      mmap(nullptr, size_ * sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw Exception(system_error("cannot share memory", errno));
  groups_ = static_cast<int*>(memory);
  // A socket, not a pipe: the end that stays here must not be inherited by anybody else, and the
  // other end is the guardian's alone.
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw Exception(system_error("cannot make a socket pair", errno));
  }
  lifeline_ = FileDescriptor(ends[0]);
  const FileDescriptor other(ends[1]);
  pid_ = fork();
  if (pid_ == 0) {
    lifeline_.close();
    watch_over(other.get(), groups_, size_);
  }
  if (pid_ < 0) throw Exception(system_error("cannot start the guardian process", errno));
  free_.reserve(size_);
  for (std::size_t i = size_; i-- > 0;) free_.push_back(groups_ + i);
}

Guardian::~Guardian() {
  const char all_is_well = 1;
  [[maybe_unused]] const ssize_t sent = send(lifeline_.get(), &all_is_well, 1, MSG_NOSIGNAL);
  waitpid(pid_, nullptr, 0);
  munmap(groups_, size_ * sizeof(int));
}

Guardian::Entry Guardian::enter() {
  if (free_.empty()) return {};
  int* record = free_.back();
  free_.pop_back();
  return Entry(*this, record);
}

void Guardian::leave(int* record) {
  *static_cast<volatile int*>(record) = 0;
  free_.push_back(record);
}

}  // namespace keyway
