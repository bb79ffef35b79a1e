#include "handlers/worker.h"

#include <algorithm>
#include <csignal>
#include <cstring>

namespace keyway::run {

namespace {

constexpr Duration kHelloTimeout = std::chrono::seconds(10);
constexpr std::size_t kShownBytes = 80;
constexpr std::size_t kLongestErrorLine = 64 * 1024;

Outcome outcome_of(const WorkerAnswer& answer) {
  if (answer.ok) return done();
  const std::string_view why = answer.error.empty() ? "the worker says no more" : answer.error;
  if (!answer.retry) return permanent_failure(std::string(why));
  return retry(std::string(why), answer.retry_after);
}

}  // namespace

Worker::Worker(WorkerOwner& owner, const WorkerOptions& options, WorkerProtocol& protocol,
               Scheduler& scheduler, Processes& processes, int number)
    : owner_(owner),
      options_(options),
      protocol_(protocol),
      scheduler_(scheduler),
      processes_(processes),
      number_(number) {}

Worker::~Worker() { scheduler_.cancel_timer(*this); }

void Worker::start() {
  state_ = kStarting;
  fault_.clear();
  timeout_.clear();
  lines_.clear();
  read_bytes_ = 0;
  errors_.clear();
  tail_.clear();
  Command command;
  command.argv = options_.argv;
  command.environment = {"KEYWAY_RUN_ID=" + options_.run_id,
                         "KEYWAY_WORKER=" + std::to_string(number_)};
  command.takes_input = true;
  process_ = processes_.start(command, *this);
  ending_.emplace(scheduler_, *process_);
  process_->write_input(WorkerProtocol::hello(options_.run_id, number_, options_.max_inflight));
  set_timer(kHelloTimeout);
}

bool Worker::take(WorkerJob& job) {
  const bool had_lines = !lines_.empty();
  if (!protocol_.append_job(lines_, job.call(), options_.timeout)) return false;
  jobs_.push_back(&job);
  job.start = scheduler_.now();
  if (options_.timeout > Duration::zero() && !timer_is_set_) set_timer(options_.timeout);
  if (!had_lines) owner_.has_lines(*this);
  return true;
}

void Worker::flush() {
  constexpr std::size_t kKept = 1 << 20;
  if (state_ == kReady) process_->write_input(lines_);
  lines_.clear();
  if (lines_.capacity() > kKept) lines_.shrink_to_fit();
}

void Worker::close() {
  state_ = kClosing;
  process_->close_input();
  set_timer(options_.grace);
}

void Worker::end(int signal) {
  if (state_ == kDown) return;
  state_ = kEnding;
  if (signal == SIGKILL) {
    ending_->kill();
  } else {
    ending_->begin(options_.grace);
  }
}

void Worker::broke(std::string fault) {
  fault_ = std::move(fault);
  end(SIGKILL);
}

void Worker::set_timer(Duration after) {
  if (timer_is_set_) scheduler_.cancel_timer(*this);
  timer_is_set_ = true;
  scheduler_.add_timer(*this, scheduler_.now() + after);
}

void Worker::fire() {
  timer_is_set_ = false;
  if (state_ == kStarting) {
    broke("did not answer hello within 10 s");
  } else if (state_ == kClosing) {
    end(SIGTERM);
  } else if (state_ == kReady) {
    check_timeouts();
  }
}

// Not set anew with each job, which would cost more than the job: the oldest one is due first.
void Worker::check_timeouts() {
  if (jobs_.empty()) return;
  const TimePoint now = scheduler_.now();
  for (WorkerJob* job : jobs_) job->handled().timed_out = now - job->start >= options_.timeout;
  const WorkerJob& oldest = *jobs_.front();
  if (!(now - oldest.start >= options_.timeout)) {
    set_timer(oldest.start + options_.timeout - now);
    return;
  }
  timeout_ = "its worker was ended: record " + std::string(oldest.call().id) + " " +
             timeout_text(options_.timeout);
  end(SIGTERM);
}

void Worker::output(Stream stream, std::string_view text) {
  if (stream == Stream::kErr) {
    pass_on_errors(text);
  } else if (state_ == kStarting || state_ == kReady) {
    read_answers(text);
  }
}

void Worker::read_answers(std::string_view text) {
  const std::size_t old_bytes = read_bytes_;
  read_bytes_ += text.size();
  if (read_.size() < read_bytes_ + WorkerProtocol::kPadding) {
    read_.resize(std::max(2 * read_.size(), read_bytes_ + WorkerProtocol::kPadding));
  }
  std::memcpy(read_.data() + old_bytes, text.data(), text.size());
  std::size_t begin = 0;
  for (std::size_t from = old_bytes; state_ == kStarting || state_ == kReady;) {
    const void* found = std::memchr(read_.data() + from, '\n', read_bytes_ - from);
    if (found == nullptr) break;
    const auto end = static_cast<std::size_t>(static_cast<const char*>(found) - read_.data());
    read_line(std::string_view(read_).substr(begin, end - begin));
    begin = from = end + 1;
  }
  if (begin > 0) {
    read_bytes_ -= begin;
    std::memmove(read_.data(), read_.data() + begin, read_bytes_);
  }
  if (read_bytes_ > WorkerProtocol::kLongestLine && (state_ == kStarting || state_ == kReady)) {
    broke("wrote a line over 16 MiB: " + excerpt({read_.data(), kShownBytes + 1}, kShownBytes));
  }
}

void Worker::read_line(std::string_view line) {
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
  const WorkerAnswer answer = line.size() <= WorkerProtocol::kLongestLine
                                  ? protocol_.parse(line)
                                  : WorkerAnswer{.fault = "is over 16 MiB"};
  if (answer.kind == WorkerAnswer::kReady && state_ == kStarting) {
    state_ = kReady;
    scheduler_.cancel_timer(*this);
    timer_is_set_ = false;
    owner_.has_room(*this);
  } else if (answer.kind == WorkerAnswer::kResult && state_ == kReady) {
    settle(answer);
  } else {
    std::string why = answer.fault;
    if (answer.kind == WorkerAnswer::kReady) why = "was ready already";
    if (answer.kind == WorkerAnswer::kResult) why = "is no answer to hello";
    broke("wrote a line that " + why + ": " + excerpt(line, kShownBytes));
  }
}

void Worker::settle(const WorkerAnswer& answer) {
  const auto asked = std::find_if(jobs_.begin(), jobs_.end(), [&](const WorkerJob* job) {
    return job->call().id == answer.id;
  });
  if (asked == jobs_.end()) {
    broke("answered a record that it does not have: " + excerpt(answer.id, kShownBytes));
    return;
  }
  WorkerJob& job = **asked;
  jobs_.erase(asked);
  job.handled().outcome = outcome_of(answer);
  if (!answer.out.empty()) {
    job.handled().output.append(answer.out);
    job.handled().output.append("\n");
  }
  owner_.answered();
  job.finish();
  owner_.has_room(*this);
}

void Worker::exited(ProcessExit exit) {
  scheduler_.cancel_timer(*this);
  timer_is_set_ = false;
  if (!errors_.empty()) pass_on_errors("\n");
  std::vector<WorkerJob*> jobs;
  jobs.swap(jobs_);
  for (WorkerJob* job : jobs) {
    Handled& handled = job->handled();
    handled.outcome = retry(handled.timed_out   ? timeout_text(options_.timeout)
                            : !timeout_.empty() ? timeout_
                            : !fault_.empty()   ? "its worker " + fault_
                                                : "its worker died: " + exit_text(exit));
    if (exit.signal == 0) handled.outcome.exit = exit.status;
    handled.outcome.stderr_tail = tail_.text();
    handled.signal = exit.signal;
    job->finish();
  }
  const bool was_asked = state_ == kClosing || (state_ == kEnding && fault_.empty());
  std::optional<std::string> death;
  if (!was_asked) death = fault_.empty() ? exit_text(exit) : "it " + fault_;
  state_ = kDown;
  ending_.reset();
  process_.reset();
  owner_.is_down(*this, exit, death);
}

void Worker::pass_on_errors(std::string_view text) {
  tail_.append(text);
  if (!options_.on_stderr) return;
  std::size_t whole = text.rfind('\n');
  whole = whole == std::string_view::npos ? 0 : whole + 1;
  if (whole > 0 && errors_.empty()) {
    options_.on_stderr(text.substr(0, whole));
  } else if (whole > 0) {
    errors_ += text.substr(0, whole);
    options_.on_stderr(errors_);
    errors_.clear();
  }
  errors_ += text.substr(whole);
  if (errors_.size() > kLongestErrorLine) {
    options_.on_stderr(errors_ + "\n");
    errors_.clear();
  }
}

void Worker::describe(std::string& text) const {
  for (const WorkerJob* job : jobs_) {
    if (!text.empty()) text += '\n';
    text += running_text(job->call(), process_->pid(), scheduler_.now() - job->start);
  }
}

}  // namespace keyway::run
