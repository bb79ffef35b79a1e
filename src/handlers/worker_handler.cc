// Long-lived processes: which worker gets which record, and when one is started.
#include <algorithm>
#include <csignal>

#include "handlers/worker.h"

namespace keyway::run {

namespace {

constexpr Duration kFirstBackoff = std::chrono::milliseconds(100);
constexpr Duration kLongestBackoff = std::chrono::seconds(5);
constexpr int kMostDeaths = 5;
constexpr std::size_t kLastWordsBytes = 400;

class WorkerHandler final : public Handler, private WorkerOwner, private Timer {
 public:
  WorkerHandler(WorkerOptions options, Scheduler& scheduler, Processes& processes);
  ~WorkerHandler() override;

  Task<Handled> handle(Call call) override;
  void no_more() override;
  Task<> finished() override;
  void end(int signal) override;
  std::string describe_running() const override;

 private:
  struct Waiting;
  struct AllDown;
  // Writes to each worker what it was given since, once what is ready now has had its turn. It outlives the handler if
  // it is in the scheduler's queue then.
  struct Flush final : Runnable {
    explicit Flush(WorkerHandler& handler) : owner(&handler) {}
    void run(Turn& turn) override;
    WorkerHandler* owner;
    bool posted = false;
  };

  void has_room(Worker& worker) override;
  void answered() override { deaths_ = 0; }
  void has_lines(Worker& worker) override;
  void is_down(Worker& worker, const ProcessExit& exit,
               const std::optional<std::string>& death) override;
  void fire() override;

  void add(WorkerJob& job);
  void dispatch();
  Worker* pick();
  bool start_one();
  void give(Worker& worker);
  void close_idle_workers();
  void give_up(std::string why);
  std::string command_text() const;
  void end_waiting(const std::string& reason);
  bool takes_jobs() const { return !failed_ && !ended_; }

  // Constant after construction.
  const WorkerOptions options_;
  Scheduler& scheduler_;
  WorkerProtocol protocol_;
  std::vector<std::unique_ptr<Worker>> workers_;

  // Jobs that no worker has yet, in the order they came.
  WorkerJob* first_ = nullptr;
  WorkerJob* last_ = nullptr;
  int waiting_ = 0;

  std::vector<Worker*> idle_;     // ready, with nothing in flight; the last one is used next
  std::vector<Worker*> flushed_;  // with lines to be written
  std::unique_ptr<Flush> flush_ = std::make_unique<Flush>(*this);
  int up_ = 0;  // not down

  int deaths_ = 0;  // in a row
  TimePoint next_start_{};
  bool timer_is_set_ = false;
  bool no_more_ = false;
  bool ended_ = false;
  bool failed_ = false;
  std::coroutine_handle<> finishing_;
  const detail::TaskContext* finishing_context_ = nullptr;
  detail::Resumption finishing_resumption_;
};

struct WorkerHandler::Waiting {
  bool await_ready() const noexcept { return false; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> coroutine) {
    job->suspended(coroutine, coroutine.promise().context());
    handler->add(*job);
  }
  void await_resume() const noexcept {}

  WorkerHandler* handler;
  WorkerJob* job;
};

struct WorkerHandler::AllDown {
  bool await_ready() const noexcept { return handler->up_ == 0; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> coroutine) {
    handler->finishing_ = coroutine;
    handler->finishing_context_ = &coroutine.promise().context();
  }
  void await_resume() const noexcept {}

  WorkerHandler* handler;
};

WorkerHandler::WorkerHandler(WorkerOptions options, Scheduler& scheduler, Processes& processes)
    : options_(std::move(options)), scheduler_(scheduler) {
  WorkerOwner& self = *this;
  for (int i = 1; i <= options_.workers; ++i) {
    workers_.push_back(
        std::make_unique<Worker>(self, options_, protocol_, scheduler, processes, i));
  }
}

WorkerHandler::~WorkerHandler() {
  KEYWAY_CHECK(first_ == nullptr, "a handler was destroyed with attempts that run");
  scheduler_.cancel_timer(*this);
  if (flush_->posted) flush_.release()->owner = nullptr;
}

Task<Handled> WorkerHandler::handle(Call call) {
  WorkerJob job(call);
  co_await Waiting{this, &job};
  co_return std::move(job.handled());
}

Task<> WorkerHandler::finished() { co_await AllDown{this}; }

void WorkerHandler::Flush::run(Turn&) {
  posted = false;
  if (owner == nullptr) {
    delete this;
    return;
  }
  for (Worker* worker : owner->flushed_) worker->flush();
  owner->flushed_.clear();
}

void WorkerHandler::add(WorkerJob& job) {
  (last_ != nullptr ? last_->next : first_) = &job;
  last_ = &job;
  ++waiting_;
  if (takes_jobs()) {
    dispatch();
  } else {
    end_waiting(failed_ ? "no worker can be had" : "the run ends");
  }
}

void WorkerHandler::dispatch() {
  while (first_ != nullptr) {
    Worker* worker = pick();
    if (worker == nullptr) return;
    give(*worker);
  }
}

// One that is idle; else another one is started; meanwhile the one with the fewest may take more.
Worker* WorkerHandler::pick() {
  if (!idle_.empty()) return idle_.back();
  int starting = 0;
  Worker* fewest = nullptr;
  for (const auto& worker : workers_) {
    if (worker->state() == Worker::kStarting) ++starting;
    if (worker->state() != Worker::kReady) continue;
    if (fewest == nullptr || worker->in_flight() < fewest->in_flight()) fewest = worker.get();
  }
  while (starting < waiting_ && start_one()) ++starting;
  const auto most = static_cast<std::size_t>(options_.max_inflight);
  return fewest != nullptr && fewest->in_flight() < most ? fewest : nullptr;
}

bool WorkerHandler::start_one() {
  if (up_ == options_.workers) return false;
  if (scheduler_.now() < next_start_) {
    if (!std::exchange(timer_is_set_, true)) scheduler_.add_timer(*this, next_start_);
    return false;
  }
  const auto down = std::find_if(workers_.begin(), workers_.end(), [](const auto& worker) {
    return worker->state() == Worker::kDown;
  });
  ++up_;
  (*down)->start();
  return true;
}

void WorkerHandler::fire() {
  timer_is_set_ = false;
  dispatch();
}

void WorkerHandler::give(Worker& worker) {
  WorkerJob& job = *first_;
  first_ = job.next;
  if (first_ == nullptr) last_ = nullptr;
  --waiting_;
  if (!worker.take(job)) {
    job.handled().outcome = permanent_failure(
        "its line would be over 16 MiB, and no worker takes a longer one: the record has " +
        std::to_string(job.call().record->value.size()) + " bytes");
    job.finish();
  } else if (worker.in_flight() == 1) {
    idle_.erase(std::find(idle_.begin(), idle_.end(), &worker));
  }
}

void WorkerHandler::has_lines(Worker& worker) {
  flushed_.push_back(&worker);
  if (!std::exchange(flush_->posted, true)) scheduler_.post(*flush_);
}

void WorkerHandler::has_room(Worker& worker) {
  if (worker.in_flight() == 0) idle_.push_back(&worker);
  dispatch();
  if (no_more_) close_idle_workers();
}

void WorkerHandler::close_idle_workers() {
  if (first_ != nullptr) return;
  for (Worker* worker : std::exchange(idle_, {})) worker->close();
}

void WorkerHandler::is_down(Worker& worker, const ProcessExit& exit,
                            const std::optional<std::string>& death) {
  --up_;
  std::erase(idle_, &worker);
  if (death && takes_jobs()) {
    ++deaths_;
    next_start_ =
        scheduler_.now() + std::min(kFirstBackoff * (1 << (deaths_ - 1)), kLongestBackoff);
    if (!exit.failure.empty() && (exit.status == 127 || exit.status == 126)) {
      give_up(exit.failure + "\n  try: its full path; is it executable?");
    } else if (deaths_ >= kMostDeaths) {
      std::string message = "worker \"" + command_text() + "\" died five times in a row: " + *death;
      std::string_view words = worker.last_words();
      words = words.substr(0, words.find_last_not_of(" \t\r\n") + 1);
      if (!words.empty()) {
        const std::size_t beyond = words.size() - std::min(words.size(), kLastWordsBytes);
        message += "; its last words: " + excerpt(words.substr(beyond), kLastWordsBytes);
      }
      give_up(message +
              "\n  try: the worker by hand; it reads one JSON object per line, and answers "
              "{\"v\":1,\"type\":\"ready\"} first");
    }
  }
  if (takes_jobs()) dispatch();
  if (up_ == 0 && finishing_) {
    finishing_resumption_.post(std::exchange(finishing_, nullptr), *finishing_context_);
  }
}

std::string WorkerHandler::command_text() const {
  std::string text;
  for (const std::string& word : options_.argv) text += (text.empty() ? "" : " ") + word;
  return excerpt(text, 80);
}

void WorkerHandler::give_up(std::string why) {
  failed_ = true;
  end_waiting("no worker can be had");
  if (on_failure) on_failure({ErrorCode::kIo, std::move(why)});
}

void WorkerHandler::end_waiting(const std::string& reason) {
  while (first_ != nullptr) {
    WorkerJob& job = *std::exchange(first_, first_->next);
    job.handled().outcome = retry(reason);
    job.finish();
  }
  last_ = nullptr;
  waiting_ = 0;
}

void WorkerHandler::no_more() {
  no_more_ = true;
  close_idle_workers();
}

void WorkerHandler::end(int signal) {
  ended_ = true;
  end_waiting("the run ends");
  for (const auto& worker : workers_) worker->end(signal);
}

std::string WorkerHandler::describe_running() const {
  std::string text;
  for (const auto& worker : workers_) worker->describe(text);
  for (const WorkerJob* job = first_; job != nullptr; job = job->next) {
    if (!text.empty()) text += '\n';
    text += std::string(job->call().id) + "  waits for a worker";
  }
  return text;
}

}  // namespace

Result<std::unique_ptr<Handler>> make_worker_handler(WorkerOptions options, Scheduler& scheduler,
                                                     Processes& processes) {
  if (options.argv.empty() || options.argv.front().empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "there is no worker to run\n  try: --worker -- COMMAND [ARGUMENT]..."};
  }
  if (options.workers < 1 || options.max_inflight < 1) {
    return Error{ErrorCode::kInvalidArgument, "there must be a worker, and it must take a record"};
  }
  return std::unique_ptr<Handler>(new WorkerHandler(std::move(options), scheduler, processes));
}

}  // namespace keyway::run
