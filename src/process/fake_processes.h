// Processes that only pretend, for tests: they take virtual time and do as they are told.
//
//   testing::SimScheduler sim;
//   FakeProcesses processes(sim, [](const Command& command) {
//     return FakeProcess{.runs_for = 2s, .out = command.argv[1] + "\n"};
//   });
//
// One that takes input may answer it:
//
//   FakeProcess{.runs_for = 24h, .on_input = [](FakeStdio& stdio, std::string_view text) {
//     stdio.write(Stream::kOut, "got " + std::string(text), 5ms);
//   }};
//
// Guarantees: as Processes; besides, `out` and `err` come just before the exit, or when the process
// is ended, and nothing depends on the machine.
//
// Thread safety: the scheduler's thread alone.
// Lifetime: not after the scheduler.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "process/process.h"

namespace keyway {

// What a process that takes input does about it, in virtual time.
class FakeStdio {
 public:
  virtual void write(Stream stream, std::string text, Duration after = {}) = 0;
  virtual void exit(int status, Duration after = {}) = 0;

 protected:
  ~FakeStdio() = default;
};

// What becomes of one command.
struct FakeProcess {
  Duration runs_for = std::chrono::milliseconds(1);
  int status = 0;
  int signal = 0;
  std::string out;
  std::string err;
  std::string failure;                // not empty: it does not start
  int error = 0;                      // of the failure
  bool ignores_term = false;          // otherwise SIGTERM ends it at once
  std::optional<int> status_on_term;  // it catches SIGTERM, and exits so
  // Called with each text that is written to stdin; with an empty one at its end.
  std::function<void(FakeStdio& stdio, std::string_view text)> on_input;
};

class FakeProcesses final : public Processes {
 public:
  using Script = std::function<FakeProcess(const Command& command)>;

  FakeProcesses(Scheduler& scheduler, Script script)
      : scheduler_(scheduler), script_(std::move(script)) {}

  std::unique_ptr<Process> start(const Command& command, ProcessEvents& events) override;

  int started() const { return started_; }
  int running() const { return running_; }
  int most_running() const { return most_running_; }
  // Every signal that was sent, with the process it was sent to, in order.
  struct Sent {
    int pid;
    int signal;
  };
  const std::vector<Sent>& signals() const { return signals_; }
  // What was written to the stdin of each, in the order of their start.
  const std::vector<std::string>& inputs() const { return inputs_; }

 private:
  class Pretended;

  Scheduler& scheduler_;
  const Script script_;
  int started_ = 0;
  int running_ = 0;
  int most_running_ = 0;
  std::vector<Sent> signals_;
  std::vector<std::string> inputs_;
};

// The value of a variable in a command's own environment; empty if it is not set.
std::string variable_of(const Command& command, std::string_view name);

}  // namespace keyway
