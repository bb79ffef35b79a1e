// The command line that every C++ benchmark program understands.
#pragma once

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace bench {

struct Options {
  std::string workload;
  std::string peer;  // empty, or which of a program's peers to run
  std::int64_t submitters = 1;
  std::int64_t tasks = 0;
  std::int64_t keys = 0;
  std::int64_t limit = 0;
};

inline constexpr const char* kUsage =
    "usage: PROGRAM WORKLOAD [--submitters N] [--tasks N] [--keys K] [--limit L] [--peer NAME]\n"
    "\n"
    "Runs one measurement and prints it as one line of JSON.\n"
    "  w1       no-op tasks over many keys              (1000000 tasks, 1000 keys, limit 4)\n"
    "  w2       no-op tasks of one serial key           (1000000 tasks, 1 key, limit 1)\n"
    "  w3       no-op tasks, each with a key of its own (1000000 tasks, limit 4)\n"
    "  w4       tasks that sleep for 10 ms              (10000 tasks, 100 keys, limit 10)\n"
    "  backlog  as w1, but queued first, then drained\n"
    "  w5       locks of random keys, by N threads      (2000000 locks, 1000 keys)\n"
    "  w6       one task at a time, waited for          (20000 tasks, 1 key, limit 1)\n";

[[noreturn]] inline void fail_usage(const std::string& message) {
  std::fprintf(stderr, "%s\n\n%s", message.c_str(), kUsage);
  std::exit(2);
}

// The sizes a workload has unless the command line says otherwise.
inline Options defaults_of(std::string_view workload) {
  Options options;
  options.workload = workload;
  const auto sizes = [&options](std::int64_t tasks, std::int64_t keys, std::int64_t limit) {
    options.tasks = tasks;
    options.keys = keys;
    options.limit = limit;
  };
  if (workload == "w1" || workload == "backlog") sizes(1'000'000, 1'000, 4);
  if (workload == "w2") sizes(1'000'000, 1, 1);
  if (workload == "w3") sizes(1'000'000, 1'000'000, 4);
  if (workload == "w4") sizes(10'000, 100, 10);
  if (workload == "w5") sizes(2'000'000, 1'000, 1);
  if (workload == "w6") sizes(20'000, 1, 1);
  if (options.tasks == 0) fail_usage("unknown workload: " + std::string(workload));
  return options;
}

inline std::int64_t parse_count(std::string_view flag, std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (!whole || value < 1 || value > 1'000'000'000) {
    fail_usage(std::string(flag) + ": not a count from 1 to 1000000000: " + std::string(text));
  }
  return value;
}

inline Options parse_options(int argc, char** argv) {
  const std::vector<std::string_view> words(argv + 1, argv + argc);
  if (words.empty() || words[0] == "-h" || words[0] == "--help") {
    std::fputs(kUsage, stdout);
    std::exit(words.empty() ? 2 : 0);
  }
  Options options = defaults_of(words[0]);
  for (std::size_t i = 1; i < words.size(); i += 2) {
    const std::string_view flag = words[i];
    if (i + 1 == words.size()) fail_usage(std::string(flag) + ": value missing");
    const std::string_view value = words[i + 1];
    if (flag == "--peer") {
      options.peer = value;
    } else if (flag == "--submitters") {
      options.submitters = parse_count(flag, value);
    } else if (flag == "--tasks") {
      options.tasks = parse_count(flag, value);
    } else if (flag == "--keys") {
      options.keys = parse_count(flag, value);
    } else if (flag == "--limit") {
      options.limit = parse_count(flag, value);
    } else {
      fail_usage("unknown option: " + std::string(flag));
    }
  }
  if (options.workload == "w3") options.keys = options.tasks;
  if (options.submitters > options.tasks) fail_usage("--submitters: more than --tasks");
  return options;
}

}  // namespace bench
