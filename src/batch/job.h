// One job of a jobs file, and how a line of JSON becomes one.
//
//   {"id":"a1","group":"db","cmd":["pg_dump","shop"],"env":{"PGHOST":"h"},"cwd":"/tmp",
//    "timeout":"5m","retries":1,"weight":2}
//
// Exactly one of "cmd" (an argv, which no shell sees) and "sh" (a line for /bin/sh) must be there;
// all else may be left out. Nothing in a job is expanded. `id` and `group` may be whole numbers.
// `timeout` is a number of seconds or a text such as "1.5m"; 0 is none.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "keyway/error.h"

namespace keyway::batch {

struct Job {
  std::string id;  // of a line that names none: its number
  std::string group;
  std::vector<std::string> argv;  // for "sh": /bin/sh -c ...
  bool is_shell = false;
  std::vector<std::string> environment;  // "NAME=value"
  std::string directory;
  std::optional<std::chrono::milliseconds> timeout;
  std::optional<int> retries;
  int weight = 1;
};

inline constexpr std::string_view kDefaultGroup = "default";
inline constexpr int kMostRetries = 1'000'000;

// Reads jobs, one after the other. The message of a failure says what is wrong with the job and, on
// a second line, what to try; where the job stood the caller knows.
//
// Thread safety: as std::vector.
class JobParser {
 public:
  // How many readable bytes must follow a line.
  static constexpr std::size_t kPadding = 64;

  JobParser();
  ~JobParser();
  JobParser(JobParser&&) noexcept;
  JobParser& operator=(JobParser&&) noexcept;

  // `line` is the number it has if it has no id. What `job` was before is forgotten.
  Result<void> parse(std::string_view text, std::uint64_t line, Job& job);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace keyway::batch
