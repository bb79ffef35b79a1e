// One long-lived process that handles records, one line each: see worker_protocol.h.
//
// state       begins                                          ends
// kDown       no process                                      start()
// kStarting   hello was written                               "ready": kReady; nothing for 10 s: kEnding
// kReady      takes jobs                                      close(): kClosing; a fault or a timeout: kEnding
// kClosing    its stdin was closed: it finishes               it exits: kDown; not in time: kEnding
// kEnding     SIGTERM or SIGKILL was sent                     it exits: kDown
//
// Guarantees:
//   (1) A job that was taken ends once, by its answer or after the exit of its process: never while the process may
//       still be at it.
//
// Thread safety: the scheduler's thread alone.
// Lifetime: not after its owner, the scheduler and the processes.
#pragma once

#include <coroutine>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "handlers/attempt_text.h"
#include "handlers/handlers.h"
#include "handlers/worker_protocol.h"
#include "process/process.h"

namespace keyway::run {

// One attempt, from handle() to its end; in the coroutine that waits for it.
class WorkerJob {
 public:
  explicit WorkerJob(const Call& call) : call_(call) {}

  const Call& call() const { return call_; }
  Handled& handled() { return handled_; }
  void suspended(std::coroutine_handle<> coroutine, const detail::TaskContext& context) {
    coroutine_ = coroutine;
    context_ = &context;
  }
  // It is over, with what handled() says: the coroutine goes on.
  void finish() { resumption_.post(coroutine_, *context_); }

  WorkerJob* next = nullptr;  // of those that wait for a worker
  TimePoint start{};          // when it was given to one

 private:
  const Call& call_;
  Handled handled_;
  std::coroutine_handle<> coroutine_;
  const detail::TaskContext* context_ = nullptr;
  detail::Resumption resumption_;
};

class Worker;

// What its workers tell the handler.
class WorkerOwner {
 public:
  // It is ready, or has answered: it may take another job.
  virtual void has_room(Worker& worker) = 0;
  virtual void answered() = 0;
  // There is something to flush().
  virtual void has_lines(Worker& worker) = 0;
  // Its process is gone. `death` says how, unless it was asked to.
  virtual void is_down(Worker& worker, const ProcessExit& exit,
                       const std::optional<std::string>& death) = 0;

 protected:
  ~WorkerOwner() = default;
};

class Worker final : private ProcessEvents, private Timer {
 public:
  enum State { kDown, kStarting, kReady, kClosing, kEnding };

  Worker(WorkerOwner& owner, const WorkerOptions& options, WorkerProtocol& protocol,
         Scheduler& scheduler, Processes& processes, int number);
  ~Worker();

  State state() const { return state_; }
  int number() const { return number_; }
  std::size_t in_flight() const { return jobs_.size(); }
  std::string_view last_words() const { return tail_.text(); }

  // REQUIRES: kDown
  void start();
  // False, and the job is not taken: it is too long for a line. REQUIRES: kReady
  bool take(WorkerJob& job);
  // Writes what was taken.
  void flush();
  // REQUIRES: kReady or kStarting, nothing in flight
  void close();
  // SIGTERM and after the grace SIGKILL; or SIGKILL at once.
  void end(int signal);
  void describe(std::string& text) const;

 private:
  void output(Stream stream, std::string_view text) override;
  void exited(ProcessExit exit) override;
  void fire() override;

  void read_answers(std::string_view text);
  void read_line(std::string_view line);
  void settle(const WorkerAnswer& answer);
  void broke(std::string fault);
  void set_timer(Duration after);
  void check_timeouts();
  void pass_on_errors(std::string_view text);

  // Constant after construction.
  WorkerOwner& owner_;
  const WorkerOptions& options_;
  WorkerProtocol& protocol_;
  Scheduler& scheduler_;
  Processes& processes_;
  const int number_;

  State state_ = kDown;
  bool timer_is_set_ = false;
  std::string fault_;             // for which it was ended
  std::string timeout_;           // of which record it was ended
  std::vector<WorkerJob*> jobs_;  // in flight, in the order they were taken
  std::string lines_;             // to be written
  std::string read_;              // of the last line, which is not whole; with padding behind it
  std::size_t read_bytes_ = 0;
  std::string errors_;  // of a line of stderr that is not whole
  Tail tail_;
  std::unique_ptr<Process> process_;
  std::optional<ProcessEnding> ending_;
};

}  // namespace keyway::run
