#include "keyway/executor_scheduler.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "keyway/detail/check.h"
#include "keyway/error.h"
#include "keyway/thread_pool.h"
#include "runtime/blocking.h"
#include "runtime/current_scheduler.h"
#include "runtime/posts_in_progress.h"
#include "runtime/service_thread.h"

namespace keyway {
namespace {

class ExecutorScheduler;

// The scheduler whose execute() the calling thread is in; null: none.
constinit thread_local const ExecutorScheduler* executing_here = nullptr;

struct RunningHere {
  const ExecutorScheduler* scheduler = nullptr;
  std::uint64_t turn = 0;
};
constinit thread_local RunningHere running_here;

class ExecutorScheduler final : public Scheduler {
 public:
  ExecutorScheduler(std::function<void(std::function<void()>)> execute, ExecutorOptions options)
      : execute_(std::move(execute)),
        options_(options),
        service_([] { return false; }, [] { return false; }) {}

  ~ExecutorScheduler() override {
    KEYWAY_CHECK(
        users_.load(std::memory_order_relaxed) == 0,
        "a scheduler is destroyed before an executor that uses it; declare the scheduler first");
    wait_until_posted_have_run();
    posts_.wait_for_all();
  }

  void post(Runnable& runnable) override {
    {
      MutexLock lock(mutex_);
      ++posted_;
    }
    // The user's execute() may block, which would delay other timers.
    service_.is_this_thread() ? execute_elsewhere(runnable) : execute(runnable);
  }

  const ExecutorOptions& options() const { return options_; }
  void add_idle_listener(IdleListener&) override { users_.fetch_add(1, std::memory_order_relaxed); }
  void remove_idle_listener(IdleListener&) override {
    users_.fetch_sub(1, std::memory_order_relaxed);
  }

  TimePoint now() const override { return std::chrono::steady_clock::now(); }
  void add_timer(Timer& timer, TimePoint deadline) override { service_.add_timer(timer, deadline); }
  bool cancel_timer(Timer& timer) override { return service_.cancel_timer(timer); }
  // An executor whose thread count is unknown may have a single thread.
  std::size_t max_threads() const override { return std::max(1U, options_.threads); }
  const char* how_to_get_more_threads() const override {
    return options_.threads == 0
               ? "say in ExecutorOptions::threads how many threads the executor has: without it, "
                 "one is assumed"
               : "give the executor more threads, and say so in ExecutorOptions::threads";
  }
  bool wait_for_turns_in_progress(const TimePoint* deadline) override {
    MutexLock lock(mutex_);
    std::map<std::uint64_t, int> in_progress = turns_;
    if (running_here.scheduler == this) in_progress.erase(running_here.turn);
    const auto one_goes_on = [&]() KEYWAY_REQUIRES(mutex_) {
      return std::any_of(in_progress.begin(), in_progress.end(),
                         [&](const auto& turn) KEYWAY_REQUIRES(mutex_) {
                           const auto found = turns_.find(turn.first);
                           return found != turns_.end() && found->second == 0;
                         });
    };
    while (one_goes_on()) {
      if (deadline == nullptr) {
        turn_ended_.wait(mutex_);
      } else if (now() < *deadline) {
        turn_ended_.wait_until(mutex_, *deadline);
      } else {
        return false;
      }
    }
    return true;
  }
  void begin_blocking() override {
    if (running_here.scheduler != this) return;
    MutexLock lock(mutex_);
    ++turns_.at(running_here.turn);
    turn_ended_.notify_all();
  }
  void end_blocking() override {
    if (running_here.scheduler != this) return;
    MutexLock lock(mutex_);
    --turns_.at(running_here.turn);
  }

 private:
  // Calls execute() on a thread of the background pool.
  class Poster final : public Runnable {
   public:
    explicit Poster(ExecutorScheduler& scheduler) : scheduler_(scheduler) {}
    void run(Turn&) override { scheduler_.execute_here(); }

   private:
    ExecutorScheduler& scheduler_;
  };

  void execute_here() {
    const BlockingRegion region;  // execute() may block, and other users need the pool's threads
    while (true) {
      std::vector<Runnable*> posted;
      {
        MutexLock lock(mutex_);
        posted.swap(to_execute_);
        if (posted.empty()) {
          poster_is_out_ = false;
          turn_ended_.notify_all();  // before the unlock: after it, the scheduler may be destroyed
          return;
        }
      }
      for (Runnable* runnable : posted) execute(*runnable);
    }
  }

  // An item that execute() did not take. A thread of the background pool runs it.
  class Untaken final : public Runnable {
   public:
    Untaken(ExecutorScheduler& scheduler, Runnable& item) : scheduler_(scheduler), item_(item) {}
    void run(Turn&) override {
      scheduler_.run(item_);
      delete this;
    }

   private:
    ExecutorScheduler& scheduler_;
    Runnable& item_;
  };

  // Some executors run their argument within execute(), for example those of Asio on their own threads. The item must not run
  // there: the caller of post() may hold what the item needs.
  void execute(Runnable& runnable) noexcept {
    const PostsInProgress::Post post(posts_);
    const ExecutorScheduler* const outer = std::exchange(executing_here, this);
    try {
      execute_([this, &runnable] {
        executing_here == this ? execute_elsewhere(runnable) : run(runnable);
      });
    } catch (...) {
      detail::background_pool().post(*new Untaken(*this, runnable));
    }
    executing_here = outer;
  }

  // Calls execute() on a thread of the background pool. If the item would run within that call, too, that thread runs it.
  void execute_elsewhere(Runnable& runnable) {
    if (Scheduler::current() == &detail::background_pool()) {
      detail::background_pool().post(*new Untaken(*this, runnable));
      return;
    }
    {
      MutexLock lock(mutex_);
      to_execute_.push_back(&runnable);
      if (std::exchange(poster_is_out_, true)) return;
    }
    detail::background_pool().post(poster_);
  }

  void run(Runnable& runnable) {
    RunningHere here{.scheduler = this};
    {
      MutexLock lock(mutex_);
      here.turn = next_turn_++;
      turns_.emplace(here.turn, 0);
    }
    const RunningHere outer = std::exchange(running_here, here);
    Turn turn;
    {
      const CurrentScheduler current(this);
      runnable.run(turn);
    }
    running_here = outer;
    if (turn.again != nullptr) post(*turn.again);
    MutexLock lock(mutex_);
    turns_.erase(here.turn);
    --posted_;
    turn_ended_.notify_all();
  }

  void wait_until_posted_have_run() {
    MutexLock lock(mutex_);
    while (posted_ > 0 || poster_is_out_) turn_ended_.wait(mutex_);
  }

  const std::function<void(std::function<void()>)> execute_;
  const ExecutorOptions options_;
  detail::Atomic<int> users_{0};  // executors; for the check of the destructor
  PostsInProgress posts_;

  Mutex<LockRank::kExecutorScheduler> mutex_;
  CondVar turn_ended_;
  std::size_t posted_ KEYWAY_GUARDED_BY(mutex_) = 0;  // not run to their end yet
  std::uint64_t next_turn_ KEYWAY_GUARDED_BY(mutex_) = 0;
  // Turns in progress, each with its number of nested blocking regions.
  std::map<std::uint64_t, int> turns_ KEYWAY_GUARDED_BY(mutex_);
  std::vector<Runnable*> to_execute_ KEYWAY_GUARDED_BY(mutex_);
  bool poster_is_out_ KEYWAY_GUARDED_BY(mutex_) = false;
  Poster poster_{*this};

  ServiceThread service_;
};

}  // namespace

std::unique_ptr<Scheduler> make_executor_scheduler(
    std::function<void(std::function<void()>)> execute, ExecutorOptions options) {
  if (!execute) throw Exception({ErrorCode::kInvalidArgument, "the executor is a null callable"});
  return std::make_unique<ExecutorScheduler>(std::move(execute), options);
}

}  // namespace keyway
