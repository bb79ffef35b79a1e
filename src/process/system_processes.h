// Real processes on an EventLoop.
//
// Beyond what Processes guarantees:
//   (1) A process without input has /dev/null for stdin; each has a group of its own.
//   (2) When the program that made this ends, by whatever, kill -9 too, every process it started
//       and has not seen exit is killed with its group; see Guardian.
//   (3) After the exit, what is in the pipes is taken and they are closed, also if somebody else
//       still has them open.
//   (4) SIGPIPE is ignored from the construction to the destruction: a process need not read its
//       input.
//
// Thread safety: the loop's thread alone.
// Lifetime: not after the loop; outlives its processes.
#pragma once

#include <csignal>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_descriptor.h"
#include "process/event_loop.h"
#include "process/guardian.h"
#include "process/process.h"

namespace keyway {

class SystemProcesses final : public Processes {
 public:
  // `most` at once. Throws Exception (kIo) if /dev/null or a guardian is not to be had.
  SystemProcesses(EventLoop& loop, std::size_t most);
  ~SystemProcesses() override;

  std::unique_ptr<Process> start(const Command& command, ProcessEvents& events) override;

 private:
  class SystemProcess;
  static constexpr std::size_t kReadBytes = 64 * 1024;

  struct Variable {
    std::string_view name() const { return std::string_view(entry).substr(0, name_length); }
    std::string entry;  // "NAME=value"
    std::size_t name_length;
  };

  static std::vector<Variable> own_environment();
  std::vector<const char*> environment_for(const Command& command) const;

  EventLoop& loop_;
  struct sigaction pipe_signal_before_{};
  FileDescriptor null_;
  Guardian guardian_;
  const std::vector<Variable> environment_;
  // Every read goes here first: what a process writes is handed on at once.
  std::unique_ptr<char[]> read_buffer_ = std::make_unique<char[]>(kReadBytes);
};

}  // namespace keyway
