#include "explore/explorer.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>
#include <unordered_set>

#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "explore/execution.h"
#include "explore/report.h"

namespace keyway::explore {

Report* report = nullptr;

void end_child() {
  // Not by _exit(): a sanitizer would wait there for a second.
  syscall(SYS_exit_group, 0);
  __builtin_unreachable();
}

namespace {

using TimePoint = std::chrono::steady_clock::time_point;

// FNV-1a
std::uint64_t hash_of_schedule() {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (std::uint32_t i = 0; i < report->deviation_count; ++i) {
    const Deviation& deviation = report->deviations[i];
    hash = (hash ^ deviation.choice) * 0x100000001b3;
    hash = (hash ^ deviation.thread) * 0x100000001b3;
  }
  return hash;
}

[[noreturn]] void explore_in_this_process(const std::function<std::unique_ptr<Scenario>()>& make,
                                          const ScenarioOptions& options, Strategy& strategy,
                                          std::uint64_t executions) {
  // On one core a hand-over is one switch, not a wake-up of another core.
  cpu_set_t core;
  CPU_ZERO(&core);
  CPU_SET(static_cast<std::size_t>(sched_getcpu()), &core);
  sched_setaffinity(0, sizeof core, &core);
  start_threads(options, strategy);
  std::unordered_set<std::uint64_t> schedules;
  while (report->executions.load(std::memory_order_relaxed) < executions && strategy.next()) {
    {
      const std::unique_ptr<Scenario> scenario = make();
      execute(*scenario);
      scenario->check();
    }
    report->executions.fetch_add(1, std::memory_order_relaxed);
    if (schedules.insert(hash_of_schedule()).second) {
      report->distinct.fetch_add(1, std::memory_order_relaxed);
    }
  }
  report->divergences = strategy.divergences();
  report->followed = strategy.followed();
  report->exhausted = strategy.is_exhausted();
  report->complete = true;
  end_child();
}

// Waits for the end of the child, and ends it if it makes no progress. Gives its wait status.
int wait_for(pid_t child) {
  constexpr auto kLook = std::chrono::milliseconds(5);
  constexpr auto kStuckAfter = std::chrono::seconds(20);
  std::uint64_t seen = 0;
  TimePoint since = std::chrono::steady_clock::now();
  while (true) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child) return status;
    const std::uint64_t progress = report->executions.load(std::memory_order_relaxed);
    const TimePoint time = std::chrono::steady_clock::now();
    if (progress != seen) {
      seen = progress;
      since = time;
    } else if (time - since > kStuckAfter) {
      kill(child, SIGKILL);
      report->failure = FailureKind::kStuck;
      std::strcpy(report->message,
                  "an execution does not end: a thread blocks outside of the explorer's control");
    }
    std::this_thread::sleep_for(kLook);
  }
}

// The end of what the child has written to stderr.
std::string tail_of(int file) {
  std::string text(1000, '\0');
  const off_t size = lseek(file, 0, SEEK_END);
  const off_t from = std::max<off_t>(0, size - static_cast<off_t>(text.size()));
  const ssize_t count = pread(file, text.data(), text.size(), from);
  text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return text;
}

}  // namespace

const char* name_of(FailureKind kind) {
  switch (kind) {
    case FailureKind::kNone:
      return "no failure";
    case FailureKind::kRequirement:
      return "requirement";
    case FailureKind::kRace:
      return "race";
    case FailureKind::kDeadlock:
      return "deadlock";
    case FailureKind::kEndless:
      return "endless";
    case FailureKind::kCrash:
      return "crash";
    case FailureKind::kStuck:
      return "stuck";
  }
  return "unknown";
}

Outcome explore(const std::function<std::unique_ptr<Scenario>()>& make,
                const ScenarioOptions& options, Strategy& strategy, std::uint64_t executions) {
  void* shared =
      mmap(nullptr, sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) std::abort();
  report = new (shared) Report;
  const int errors = memfd_create("stderr", MFD_CLOEXEC);
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) std::abort();
  if (child == 0) {
    dup2(errors, STDERR_FILENO);
    explore_in_this_process(make, options, strategy, executions);
  }
  const int status = wait_for(child);
  if (report->failure == FailureKind::kNone && !report->complete) {
    report->failure = FailureKind::kCrash;
    const std::string how = WIFSIGNALED(status)
                                ? std::string("signal ") + strsignal(WTERMSIG(status))
                                : "exit status " + std::to_string(WEXITSTATUS(status));
    std::snprintf(report->message, sizeof report->message, "%s\n%s", how.c_str(),
                  tail_of(errors).c_str());
  }
  Outcome outcome{.executions = report->executions,
                  .distinct = report->distinct,
                  .steps = report->steps,
                  .divergences = report->divergences,
                  .followed = report->followed,
                  .exhausted = report->exhausted,
                  .failure = report->failure,
                  .message = report->message,
                  .schedule = {}};
  if (!outcome.ok())
    outcome.schedule = to_string(report->deviations.data(), report->deviation_count);
  close(errors);
  report->~Report();
  munmap(shared, sizeof(Report));
  report = nullptr;
  return outcome;
}

}  // namespace keyway::explore
