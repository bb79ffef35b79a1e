// What is said about attempts, by every kind of handler in the same words.
#pragma once

#include <string>
#include <string_view>

#include "handlers/handler.h"
#include "keyway/scheduler.h"
#include "process/process.h"

namespace keyway::run {

// "exit 3", "killed by SIGSEGV", or why it was not started.
std::string exit_text(const ProcessExit& exit);
// "took longer than 30 s"
std::string timeout_text(Duration timeout);
// "f:12  key u7  pid 1001  try 1  since 2.5 s", for SIGUSR1. pid 0: none.
std::string running_text(const Call& call, int pid, Duration since);
// The first bytes of a text as one printable line.
std::string excerpt(std::string_view text, std::size_t most_bytes);

// The last of a text that comes in pieces.
class Tail {
 public:
  static constexpr std::size_t kBytes = 4096;

  void append(std::string_view text);
  std::string_view text() const {
    const std::string_view all = text_;
    return all.substr(all.size() - (all.size() < kBytes ? all.size() : kBytes));
  }
  void clear() { text_.clear(); }

 private:
  std::string text_;  // up to twice as much, so that little is moved
};

}  // namespace keyway::run
