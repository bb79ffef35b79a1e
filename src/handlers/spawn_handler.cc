// A process for each record.
#include <cerrno>
#include <csignal>
#include <set>

#include "handlers/attempt_text.h"
#include "handlers/command_template.h"
#include "handlers/handlers.h"

namespace keyway::run {

namespace {

// "It will never work": no other try.
constexpr int kPermanentFailure = 65;

class SpawnHandler final : public Handler {
 public:
  SpawnHandler(SpawnOptions options, CommandTemplate command, Scheduler& scheduler,
               Processes& processes)
      : options_(std::move(options)),
        command_(std::move(command)),
        scheduler_(scheduler),
        processes_(processes) {}

  Task<Handled> handle(Call call) override;
  void end(int signal) override;
  std::string describe_running() const override;

 private:
  // One process, from its start to its exit.
  class Run final : public OutputListener, private Timer {
   public:
    Run(SpawnHandler& owner, const Call& call) : owner_(owner), call_(call) {
      owner_.running_.insert(this);
    }
    ~Run() {
      owner_.scheduler_.cancel_timer(*this);
      owner_.running_.erase(this);
    }

    void start(const Command& command);
    void output(Stream stream, std::string_view text) override;
    void end(int signal);
    Handled handled(const ProcessExit& exit);
    std::string describe() const {
      return running_text(call_, process_ == nullptr ? 0 : process_->pid(),
                          owner_.scheduler_.now() - start_);
    }

    ProcessWait wait{*this};  // for its exit

   private:
    void fire() override;
    Outcome judge(const ProcessExit& exit);

    SpawnHandler& owner_;
    const Call& call_;
    const TimePoint start_ = owner_.scheduler_.now();
    bool timed_out_ = false;
    CapturedOutput out_;
    CapturedOutput err_;
    Tail tail_;
    std::unique_ptr<Process> process_;
    std::optional<ProcessEnding> ending_;
  };

  std::vector<std::string> environment_for(const Call& call) const;
  void report_failure(const ProcessExit& exit);

  const SpawnOptions options_;
  const CommandTemplate command_;
  Scheduler& scheduler_;
  Processes& processes_;
  std::set<Run*> running_;
  bool failed_ = false;
};

Handled gave_up(Outcome outcome) {
  Handled handled;
  handled.outcome = std::move(outcome);
  return handled;
}

void SpawnHandler::Run::start(const Command& command) {
  process_ = owner_.processes_.start(command, wait);
  ending_.emplace(owner_.scheduler_, *process_);
  process_->write_input(call_.record->value);
  process_->write_input("\n");
  process_->close_input();
  const Duration timeout = owner_.options_.timeout;
  if (timeout > Duration::zero()) owner_.scheduler_.add_timer(*this, start_ + timeout);
}

void SpawnHandler::Run::output(Stream stream, std::string_view text) {
  (stream == Stream::kOut ? out_ : err_).append(text);
  if (stream == Stream::kErr) tail_.append(text);
}

void SpawnHandler::Run::fire() {
  timed_out_ = true;
  ending_->begin(owner_.options_.grace);
}

void SpawnHandler::Run::end(int signal) {
  if (!ending_) return;
  if (signal == SIGKILL) {
    ending_->kill();
  } else {
    ending_->begin(owner_.options_.grace);
  }
}

Outcome SpawnHandler::Run::judge(const ProcessExit& exit) {
  if (exit.error == E2BIG) {
    return permanent_failure(
        "its values are too long for a command line, which takes 128 KiB each: take them from "
        "stdin");
  }
  if (timed_out_) return retry(timeout_text(owner_.options_.timeout));
  if (exit.failure.empty() && exit.signal == 0) {
    if (exit.status == 0) return done();
    if (exit.status == kPermanentFailure) return permanent_failure(exit_text(exit));
  }
  return retry(exit_text(exit));
}

Handled SpawnHandler::Run::handled(const ProcessExit& exit) {
  out_.finish();
  err_.finish();
  Handled handled;
  handled.outcome = judge(exit);
  if (handled.outcome.kind != Outcome::kDone) {
    if (exit.signal == 0) handled.outcome.exit = exit.status;
    handled.outcome.stderr_tail = tail_.text();
  }
  handled.signal = exit.signal;
  handled.timed_out = timed_out_;
  handled.output = std::move(out_);
  handled.errors = std::move(err_);
  return handled;
}

Task<Handled> SpawnHandler::handle(Call call) {
  Result<std::vector<std::string>> argv = command_.fill(call);
  if (!argv) co_return gave_up(permanent_failure(argv.error().message));
  Command command;
  command.argv = std::move(*argv);
  command.environment = environment_for(call);
  command.takes_input = true;
  for (const std::string& entry : command.environment) {
    if (entry.find('\0') == std::string::npos) continue;
    const std::string name = entry.substr(0, entry.find('='));
    co_return gave_up(permanent_failure("a NUL byte cannot be in a variable: " + name));
  }
  Run run(*this, call);
  run.start(command);
  const ProcessExit exit = co_await run.wait;
  Handled handled = run.handled(exit);
  if (!exit.failure.empty() && handled.outcome.kind == Outcome::kRetry) report_failure(exit);
  co_return handled;
}

// A program that is not there is there for no record. A system that has no room for a process may
// have it later.
void SpawnHandler::report_failure(const ProcessExit& exit) {
  const bool is_the_program = exit.status == 127 || exit.status == 126;
  if (!is_the_program || !command_.has_fixed_program() || failed_) return;
  failed_ = true;
  const bool looks_like_shell = options_.argv.front().find(' ') != std::string::npos;
  if (on_failure) {
    on_failure({ErrorCode::kIo,
                exit.failure + (looks_like_shell ? "\n  try: --shell for a text with arguments"
                                                 : "\n  try: its full path; is it executable?")});
  }
}

std::vector<std::string> SpawnHandler::environment_for(const Call& call) const {
  std::vector<std::string> environment;
  environment.reserve(12);
  const auto set = [&](std::string_view name, std::string_view value) {
    std::string& entry = environment.emplace_back("KEYWAY_");
    entry += name;
    entry += '=';
    entry += value;
  };
  set("KEY", call.key);
  set("GROUP", call.group);
  set("ID", call.id);
  set("SEQ", std::to_string(call.record->number));
  set("ATTEMPT", std::to_string(call.attempt.number));
  set("MAX_ATTEMPTS", std::to_string(call.attempt.most));
  set("SLOT", std::to_string(call.slot));
  set("RUN_ID", options_.run_id);
  set("SOURCE", call.source);
  set("PARTITION", std::to_string(call.record->partition));
  set("OFFSET", std::to_string(call.record->offset));
  if (options_.timeout > Duration::zero()) {
    using std::chrono::milliseconds;
    const auto deadline = std::chrono::system_clock::now() + options_.timeout;
    const auto since = std::chrono::floor<milliseconds>(deadline.time_since_epoch());
    set("DEADLINE", std::to_string(since.count()));
  }
  return environment;
}

void SpawnHandler::end(int signal) {
  for (Run* run : running_) run->end(signal);
}

std::string SpawnHandler::describe_running() const {
  std::string text;
  for (const Run* run : running_) {
    if (!text.empty()) text += '\n';
    text += run->describe();
  }
  return text;
}

}  // namespace

Result<std::unique_ptr<Handler>> make_spawn_handler(SpawnOptions options, Scheduler& scheduler,
                                                    Processes& processes) {
  Result<CommandTemplate> command = CommandTemplate::parse(options.argv, options.shell);
  if (!command) return command.error();
  return std::unique_ptr<Handler>(
      new SpawnHandler(std::move(options), std::move(*command), scheduler, processes));
}

}  // namespace keyway::run
