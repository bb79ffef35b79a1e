// What a wait costs while many others wait: the time for each, with 1,000, 10,000 and 100,000 waiters at once.
//
//   waits_bench [--rounds N]
//
// Three kinds, each on a pool of its own. "groups": tasks of as many groups, each of which awaits a task of one group that
// is paused until all are submitted. "priority": the same for tasks of one group that await tasks with a priority.
// "targets": each awaits a task of a group of its own. The time runs from the first submit to the end of the last task.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "keyway/group_executor.h"
#include "keyway/task.h"

namespace {

using Clock = std::chrono::steady_clock;

struct Kind {
  const char* name;
  bool own_groups;    // of the waiting tasks
  bool own_targets;   // each awaits a task of a group of its own
  bool has_priority;  // the awaited tasks
};

double nanoseconds_per_wait(const Kind& kind, int count) {
  keyway::GroupExecutor executor({.groups = {{"outer", {.max_concurrency = keyway::kUnlimited}}}},
                                 {.threads = 2});
  executor.pause_group("inner");
  const auto began = Clock::now();
  for (int i = 0; i < count; ++i) {
    const std::string number = std::to_string(i);
    const auto outer = [&, number]() -> keyway::Task<void> {
      auto target = executor.submit(kind.own_targets ? "target-" + number : "inner",
                                    {.priority = kind.has_priority ? 1 : 0}, [] {});
      if (!(co_await target).ok()) std::abort();
    };
    if (!executor.post(kind.own_groups ? "outer-" + number : "outer", outer)) std::abort();
  }
  executor.resume_group("inner");
  executor.drain();
  return std::chrono::duration<double, std::nano>(Clock::now() - began).count() / count;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc == 3 && std::strcmp(argv[1], "--rounds") == 0 ? std::atoi(argv[2]) : 5;
  std::printf("%-10s %10s %10s %10s  ratio of the last to the first\n", "waits", "1,000", "10,000",
              "100,000");
  for (const Kind& kind : {Kind{"groups", true, false, false}, Kind{"priority", false, false, true},
                           Kind{"targets", true, true, false}}) {
    std::vector<double> medians;
    for (const int count : {1'000, 10'000, 100'000}) {
      std::vector<double> times;
      for (int round = 0; round < rounds; ++round) {
        times.push_back(nanoseconds_per_wait(kind, count));
      }
      std::sort(times.begin(), times.end());
      medians.push_back(times[times.size() / 2]);
    }
    std::printf("%-10s %7.0f ns %7.0f ns %7.0f ns  %.2f\n", kind.name, medians[0], medians[1],
                medians[2], medians[2] / medians[0]);
  }
}
