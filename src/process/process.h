// The seam between what is to be run and the processes that run it.
//
// SystemProcesses starts real ones on an EventLoop, FakeProcesses pretends to under a SimScheduler;
// what runs jobs is written against this page alone.
//
//   Task<> run(Processes& processes, const Command& command) {
//     ProcessWait wait(events);                                  // what comes goes to `events`
//     std::unique_ptr<Process> process = processes.start(command, wait);
//     ProcessExit exit = co_await wait;                          // no thread waits
//   }
//
// Guarantees:
//   (1) For every start(): output() any number of times, then exited() once, last; never from
//       within start() itself.
//   (2) A command that cannot be started is one that exited with status 127 (no such program), 126
//       (it cannot be run) or 125 (the system could start no process), and `failure` says why.
//   (3) Output that was written before the exit is delivered before exited(). What a process left
//       behind writes later is not waited for.
//   (4) stdin is empty unless the command takes_input; then it ends with close_input(), or when the
//       Process is destroyed.
//   (5) Whoever destroys a Process that has not exited ends it: SIGKILL to its group. Nothing is
//       called any more.
//
// Thread safety: the scheduler's thread alone.
// Lifetime: events outlive their Process; Processes outlives all of them.
#pragma once

#include <chrono>
#include <coroutine>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "keyway/scheduler.h"
#include "keyway/task.h"

namespace keyway {

enum class Stream { kOut = 0, kErr = 1 };

struct Command {
  std::vector<std::string> argv;
  std::vector<std::string> environment;  // "NAME=value", besides, or instead of, the program's own
  std::string directory;                 // empty: the program's own
  bool captures_output = true;           // otherwise it goes nowhere
  bool takes_input = false;              // by write_input(); otherwise there is none
};

struct ProcessExit {
  int status = 0;
  int signal = 0;       // 0: none; else the status means nothing
  std::string failure;  // not empty: it was not started
  int error = 0;        // why not, as errno has it; E2BIG: its arguments are too long
};

class ProcessEvents {
 public:
  virtual void output(Stream stream, std::string_view text) = 0;
  virtual void exited(ProcessExit exit) = 0;

 protected:
  ~ProcessEvents() = default;
};

class Process {
 public:
  virtual ~Process() = default;

  virtual int pid() const = 0;  // 0: it was not started
  // To the process and all of its group. Nothing happens if it has exited.
  virtual void send_signal(int signal) = 0;
  // From now on whatever is left of its group when it exits gets SIGKILL.
  virtual void kill_group_at_exit() = 0;
  // No output() until resume_output(), so that the process waits for room in the end. exited() ends
  // it.
  virtual void pause_output() = 0;
  virtual void resume_output() = 0;
  // To its stdin, in the order of the calls, and never waits: what finds no room is copied, and
  // written when there is. How much of it waits is for the caller to bound. A process that does not
  // read it, or is gone, is no error: the text is dropped. REQUIRES: the command takes_input.
  virtual void write_input(std::string_view text) = 0;
  // The end of its stdin, after what was written. Nothing is written any more.
  virtual void close_input() = 0;
};

class Processes {
 public:
  virtual ~Processes() = default;
  virtual std::unique_ptr<Process> start(const Command& command, ProcessEvents& events) = 0;
};

// Ends a process: SIGTERM, and after `grace` SIGKILL, to its group.
//
// Lifetime: not after its process.
class ProcessEnding final : private Timer {
 public:
  ProcessEnding(Scheduler& scheduler, Process& process)
      : scheduler_(scheduler), process_(process) {}
  ~ProcessEnding() { scheduler_.cancel_timer(*this); }

  // Once; later calls do nothing.
  void begin(Duration grace);
  // SIGKILL now.
  void kill();
  bool begun() const { return begun_; }

 private:
  void fire() override { kill(); }

  Scheduler& scheduler_;
  Process& process_;
  bool begun_ = false;
};

// Lets a coroutine wait for the exit; what is written meanwhile goes to the listener.
class OutputListener {
 public:
  virtual void output(Stream stream, std::string_view text) = 0;

 protected:
  ~OutputListener() = default;
};

class ProcessWait final : public ProcessEvents {
 public:
  explicit ProcessWait(OutputListener& listener) : listener_(listener) {}

  bool await_ready() const noexcept { return exited_; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> coroutine) {
    coroutine_ = coroutine;
    context_ = &coroutine.promise().context();
  }
  ProcessExit await_resume() { return std::move(exit_); }

  void output(Stream stream, std::string_view text) override { listener_.output(stream, text); }
  void exited(ProcessExit exit) override;

 private:
  OutputListener& listener_;
  std::coroutine_handle<> coroutine_;
  const detail::TaskContext* context_ = nullptr;
  detail::Resumption resumption_;
  bool exited_ = false;
  ProcessExit exit_;
};

}  // namespace keyway
