// Two groups of tasks, drawn as they really ran: each group under its own limit, both side by side.
//
//   vip   at most 4 at once   6 tasks of 40 ms
//   std   at most 1 at once   3 tasks of 80 ms
//
// Every block below comes from the times in the tasks' results. The program fails if they show
// that a limit was exceeded.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "keyway/group_executor.h"

namespace {

using namespace std::chrono_literals;
using Results = std::vector<keyway::GroupResult<void>>;

constexpr int kMsPerColumn = 5;
constexpr int kColumnsPerMark = 8;
constexpr int kLabelColumns = 12;

// Milliseconds since the first submit, rounded: the drawing is not finer than that.
long to_ms(keyway::TimePoint time, keyway::TimePoint zero) {
  return std::chrono::round<std::chrono::milliseconds>(time - zero).count();
}

long to_column(long ms) { return (ms + kMsPerColumn / 2) / kMsPerColumn; }

// The most tasks that ran at one instant: a maximum is reached when one of them starts.
int most_at_once(const Results& results, keyway::TimePoint zero) {
  int most = 0;
  for (const auto& one : results) {
    const long instant = to_ms(one.started, zero);
    const auto running = std::count_if(results.begin(), results.end(), [&](const auto& other) {
      return to_ms(other.started, zero) <= instant && instant < to_ms(other.ended, zero);
    });
    most = std::max(most, static_cast<int>(running));
  }
  return most;
}

bool terminal_speaks_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {  // the first that is set decides
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    const std::string_view locale = value;
    return locale.ends_with("UTF-8") || locale.ends_with("utf8");
  }
  return false;
}

void draw_axis(long last_ms) {
  std::string axis = "time in ms";
  for (long column = 0; column <= to_column(last_ms); column += kColumnsPerMark) {
    axis.resize(static_cast<std::size_t>(kLabelColumns + column), ' ');
    axis += std::to_string(column * kMsPerColumn);
  }
  std::printf("%s\n", axis.c_str());
}

void draw_row(const keyway::GroupResult<void>& result, keyway::TimePoint zero) {
  const std::string block = terminal_speaks_utf8() ? "█" : "#";
  const long from = to_column(to_ms(result.started, zero));
  const long to = std::max(from + 1, to_column(to_ms(result.ended, zero)));
  std::string bar(static_cast<std::size_t>(from), ' ');
  for (long column = from; column < to; ++column) bar += block;
  const std::string label = result.group_key + " " + result.task_id;
  std::printf("%-*s%s\n", kLabelColumns, label.c_str(), bar.c_str());
}

// Draws a group's tasks; false if more of them ran at once than its limit allows.
bool draw_group(const std::string& key, int limit, const Results& results, keyway::TimePoint zero) {
  for (const auto& result : results) draw_row(result, zero);
  const int most = most_at_once(results, zero);
  std::printf("group %s: limit %d, %zu tasks, at most %d at once, %s\n\n", key.c_str(), limit,
              results.size(), most, most <= limit ? "never more" : "WHICH IS TOO MANY");
  return most <= limit;
}

}  // namespace

int main() {
  // The policy says how many tasks of a group may run at once.
  keyway::GroupExecutor executor({
      .groups = {{"vip", {.max_concurrency = 4}}, {"std", {.max_concurrency = 1}}},
  });

  // submit() does not wait: it takes the group, a name for the task and anything that can be
  // called, and returns a handle. The tasks here block their thread; the executor has others.
  const keyway::TimePoint zero = std::chrono::steady_clock::now();
  std::vector<keyway::TaskHandle<void>> vip;
  std::vector<keyway::TaskHandle<void>> standard;
  for (const char* id : {"task-1", "task-2", "task-3", "task-4", "task-5", "task-6"}) {
    vip.push_back(executor.submit("vip", id, [] { std::this_thread::sleep_for(40ms); }));
  }
  for (const char* id : {"task-A", "task-B", "task-C"}) {
    standard.push_back(executor.submit("std", id, [] { std::this_thread::sleep_for(80ms); }));
  }

  // join() waits for one task and gives its result: status, value, error, and when it ran.
  Results vip_results;
  Results standard_results;
  for (auto& handle : vip) vip_results.push_back(handle.join());
  for (auto& handle : standard) standard_results.push_back(handle.join());

  draw_axis(to_ms(standard_results.back().ended, zero));
  const bool vip_held = draw_group("vip", 4, vip_results, zero);
  const bool standard_held = draw_group("std", 1, standard_results, zero);
  return vip_held && standard_held ? EXIT_SUCCESS : EXIT_FAILURE;
}
