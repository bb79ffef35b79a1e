#include "runtime/blocked_probe.h"

#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

namespace keyway {
namespace {

std::chrono::nanoseconds read_clock(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

BlockedProbe::BlockedProbe() : thread_id_(gettid()), last_look_(std::chrono::steady_clock::now()) {
  pthread_getcpuclockid(pthread_self(), &cpu_clock_);
  last_cpu_ = read_clock(cpu_clock_);
}

bool BlockedProbe::blocked(TimePoint now) {
  const std::chrono::nanoseconds cpu = read_clock(cpu_clock_);
  const std::chrono::nanoseconds used = cpu - last_cpu_;
  const std::chrono::nanoseconds passed = now - last_look_;
  last_cpu_ = cpu;
  last_look_ = now;
  return used < passed / 4 && sleeps();
}

// The state letter in /proc/self/task/ID/stat stands behind the name in parentheses. A system
// without /proc leaves the decision to the CPU clock.
bool BlockedProbe::sleeps() const {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/task/%d/stat", static_cast<int>(thread_id_));
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return true;
  char text[128];
  const ssize_t size = read(file, text, sizeof text - 1);
  close(file);
  if (size <= 0) return true;
  text[size] = '\0';
  const char* name_end = std::strrchr(text, ')');
  return name_end == nullptr || name_end[1] == '\0' || name_end[2] != 'R';
}

}  // namespace keyway
