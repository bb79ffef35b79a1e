// A pipeline's run: its begin, its end, and its pauses.
#include <array>
#include <string>
#include <utility>

#include "base/hash_key.h"
#include "groups/blocked_wait.h"
#include "stream/pipeline_batch.h"
#include "stream/pipeline_engine.h"

namespace keyway {

// The run, as the target of the wait of run_until(). It needs a thread of the scheduler, and depends on
// the waits of the records' tasks.
class Pipeline::Engine::Run final : public WantedWork {
 public:
  explicit Run(const Engine& engine) : engine_(engine) {}
  Scheduler* scheduler() const override { return &engine_.scheduler_; }
  bool includes(const detail::TaskCore* task, const WantedWork*) const override {
    if (task == nullptr) return false;
    const detail::TaskOwner* owner = &task->owner();
    return owner == &engine_.executor_->owner() ||
           (engine_.calls_ && owner == &engine_.calls_->owner());
  }
  std::array<Scope, 2> scopes() const override {
    return {{{.owner = &engine_.executor_->owner()},
             {.owner = engine_.calls_ ? &engine_.calls_->owner() : nullptr}}};
  }
  std::string name() const override { return "the end of a pipeline's run"; }
  const char* how_to_wait_otherwise() const override { return kWaitElsewhere; }

 private:
  const Engine& engine_;
};

Result<PipelineEnd> Pipeline::Engine::run_until(std::stop_token stop) {
  if (ran_.exchange(true)) {
    return Error{ErrorCode::kInvalidArgument,
                 "run_until() was called before; a pipeline runs once: make another one"};
  }
  struct Runs {
    explicit Runs(detail::Atomic<bool>& of) : flag(of) { flag.store(true); }
    ~Runs() { flag.store(false); }
    detail::Atomic<bool>& flag;
  } const runs(runs_);
  // A wake-up before the run has begun does nothing: the run begins with one.
  const auto wake_if_open = [this] {
    if (is_open_.load(std::memory_order_acquire)) wake();
  };
  try {
    if (Result<void> opened = source_.open(wake_if_open); !opened) return opened.error();
  } catch (...) {
    return error_of(std::current_exception());
  }
  const Run run(*this);
  BlockedWait wait;
  if (Result<void> begun = wait.begin(run, /*bounded=*/false); !begun) {
    (void)close_source();  // no step may follow: there is perhaps no thread for it
    return begun.error();
  }
  next_commit_ = from_now(options_.commit_interval);
  is_open_.store(true, std::memory_order_release);
  const std::stop_callback on_stop(stop, [this] {
    stop_wanted_ = true;
    wake();
  });
  wake();
  const WaitEnd end = block(over_, {.scheduler = &scheduler_});
  KEYWAY_CHECK(end == WaitEnd::kDone,
               "a pipeline has not ended, but the simulation has nothing more to run");
  wait.end(&scheduler_);
  scheduler_.cancel_timer(*this);
  const Result<void> closed = close_source();
  MutexLock lock(failure_mutex_);
  if (failure_) return *failure_;
  if (!closed) return closed.error();
  return PipelineEnd{*ending_, halted_by_};
}

// Returns an exception as an error.
Result<void> Pipeline::Engine::close_source() {
  try {
    source_.close();
    return {};
  } catch (...) {
    return error_of(std::current_exception());
  }
}

// ---- ending

void Pipeline::Engine::begin_end_if_due() {
  if (ending_) return;
  std::optional<PipelineEnd::Why> why;
  {
    MutexLock lock(failure_mutex_);
    if (!halted_by_.empty()) why = PipelineEnd::kHalted;
    if (failure_) why = PipelineEnd::kStopped;
  }
  if (stop_wanted_) why = PipelineEnd::kStopped;
  if (why) begin_end(*why);
}

void Pipeline::Engine::begin_end(PipelineEnd::Why why) {
  ending_ = why;
  end_by_ = from_now(options_.shutdown_wait);
  for (const Partition::Held& held : held_) drop(held);
  held_.clear();
  for (const auto& [line, records] : aside_) {
    for (const Partition::Held& held : records) drop(held);
  }
  aside_.clear();
  for (auto& [id, partition] : partitions_) partition->give_up();
  if (batch_line_ != nullptr) batch_line_->let_dropped_go();
  // A paused key would keep its records for ever, and a rate for long. They find that their partition is given up.
  resume_all();
  executor_->end_rates();
  if (calls_) calls_->end_rates();
}

void Pipeline::Engine::resume_all() {
  std::set<std::string, std::less<>> groups;
  {
    MutexLock lock(paused_mutex_);
    keys_must_go_on_ = true;
    groups.swap(paused_groups_);
  }
  for (const std::string& group : groups) executor_->resume_group(group);
  executor_->resume();
}

// A pause that meets the end of the run is undone either here or by resume_all().
void Pipeline::Engine::pause_all(bool pause) {
  bool goes_on = !pause;
  if (pause) {
    executor_->pause();
    MutexLock lock(paused_mutex_);
    goes_on = keys_must_go_on_;
  }
  if (goes_on) executor_->resume();
}

bool Pipeline::Engine::is_paused(std::string_view group) {
  MutexLock lock(paused_mutex_);
  return paused_groups_.contains(group);
}

// Two calls for one key, or a call and resume_all(), may reach the executor in either order, so each repeats until the
// executor has what the key shall be.
void Pipeline::Engine::pause_key(std::string_view key, bool pause) {
  if (options_.order != Order::kKey)
    return;  // its records share their group with those of other keys
  const std::string group = group_of(key);
  {
    MutexLock lock(paused_mutex_);
    if (pause && !keys_must_go_on_) {
      paused_groups_.insert(group);
    } else {
      paused_groups_.erase(group);
    }
  }
  bool paused = false;
  do {
    paused = is_paused(group);
    paused ? executor_->pause_group(group) : executor_->resume_group(group);
  } while (is_paused(group) != paused);
  if (pause) return;
  // The key has more room than while it was paused, perhaps without a task that will end.
  ended_keys_.ended(hash_key(group));
  if (is_open_.load(std::memory_order_acquire)) wake();
}

// The last commit: up to the first that is not done, with all that is done above it. True: the run is over.
bool Pipeline::Engine::end_if_quiet() {
  const bool in_time = scheduler_.now() < end_by_;
  if (in_flight_ > 0 && in_time) return false;
  if (in_flight_ > 0) {
    closed_ = true;
    if (storing_ > 0) return false;  // the last one wakes the pump
  }
  if (!commit()) {
    if (in_time && !failed()) return false;  // once more, a little later
    fail(*commit_error_);
  }
  show();
  return true;
}

bool Pipeline::Engine::failed() {
  MutexLock lock(failure_mutex_);
  return failure_.has_value();
}

}  // namespace keyway
