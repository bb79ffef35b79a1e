// What a command calls the things it runs, in progress and summary.
#pragma once

#include <string_view>

namespace keyway::cli {

struct RunWords {
  std::string_view item = "job";
  std::string_view items = "jobs";
  std::string_view group = "group";
  std::string_view groups = "groups";
  std::string_view failed = "failed";
  std::string_view running = "running";  // of the times of tries
  bool is_stream = false;                // records may have no key, and those that die have letters
};

inline constexpr RunWords kBatchWords;
inline constexpr RunWords kStreamWords{.item = "record",
                                       .items = "records",
                                       .group = "key",
                                       .groups = "keys",
                                       .failed = "dead",
                                       .running = "handler",
                                       .is_stream = true};

}  // namespace keyway::cli
