// One tenant floods, ten are calm: what the calm ones wait, with and without the flood.
//
//   fairness_bench [--rounds N] [--task-us N]
//
// Each of the ten submits a task every 10 ms. The flood keeps 100,000 tasks waiting. All tasks spin for the
// same time, and all tenants have the same weight and a limit of 2, as many as there are threads: so it is
// not the limit that keeps the flood from taking all of them.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "keyway/group_executor.h"

namespace {

using Clock = std::chrono::steady_clock;
using Micros = std::chrono::duration<double, std::micro>;

constexpr int kTenants = 10;
constexpr int kTasksEach = 200;
constexpr std::uint64_t kFlood = 100'000;

void spin(std::chrono::microseconds time) {
  for (const auto end = Clock::now() + time; Clock::now() < end;) {
  }
}

double quantile(std::vector<double>& sorted, double part) {
  const auto index = static_cast<std::size_t>(part * static_cast<double>(sorted.size()));
  return sorted[std::min(index, sorted.size() - 1)];
}

// What the calm tenants' tasks waited, in microseconds, sorted.
std::vector<double> measure(bool flooded, std::chrono::microseconds task) {
  keyway::GroupExecutor executor({.default_group = {.max_concurrency = 2}}, {.threads = 2});
  std::vector<double> waits(kTenants * kTasksEach);
  std::atomic<std::size_t> begun = 0;
  const auto flood = [&] {
    for (std::uint64_t waiting = executor.group_stats("flood").waiting; waiting < kFlood;
         ++waiting) {
      if (!executor.post("flood", [task] { spin(task); })) std::abort();
    }
  };
  if (flooded) flood();
  auto next = Clock::now();
  for (int i = 0; i < kTasksEach * kTenants; ++i) {
    const auto submitted = Clock::now();
    const auto work = [&waits, &begun, submitted, task] {
      const double waited = Micros(Clock::now() - submitted).count();
      waits[begun++] = waited;
      spin(task);
    };
    if (!executor.post("tenant-" + std::to_string(i % kTenants), work)) std::abort();
    if (flooded) flood();
    next += std::chrono::milliseconds(10) / kTenants;
    std::this_thread::sleep_until(next);
  }
  while (begun < waits.size()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  executor.shutdown();
  std::sort(waits.begin(), waits.end());
  return waits;
}

int number(int argc, char** argv, const char* flag, int standard) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::strcmp(argv[i], flag) == 0) return std::atoi(argv[i + 1]);
  }
  return standard;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = number(argc, argv, "--rounds", 5);
  const std::chrono::microseconds task(number(argc, argv, "--task-us", 20));
  std::printf("waiting of ten calm tenants, in us, tasks of %d us\n",
              static_cast<int>(task.count()));
  std::printf("  %-9s %8s %8s %8s   %8s %8s %8s   %s\n", "", "alone:", "p50", "p99",
              "flooded:", "p50", "p99", "p99 ratio");
  std::vector<double> ratios;
  for (int round = 0; round < rounds; ++round) {
    std::vector<double> alone = measure(false, task);
    std::vector<double> flooded = measure(true, task);
    ratios.push_back(quantile(flooded, 0.99) / quantile(alone, 0.99));
    std::printf("  round %-12d %8.1f %8.1f   %17.1f %8.1f   %9.2f\n", round + 1,
                quantile(alone, 0.5), quantile(alone, 0.99), quantile(flooded, 0.5),
                quantile(flooded, 0.99), ratios.back());
  }
  std::sort(ratios.begin(), ratios.end());
  std::printf("  p99 with the flood is %.2f times that without it (median; %.2f to %.2f)\n",
              quantile(ratios, 0.5), ratios.front(), ratios.back());
}
