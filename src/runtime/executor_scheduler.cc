#include "keyway/executor_scheduler.h"

#include "base/mutex.h"
#include "runtime/service_thread.h"

namespace keyway {
namespace {

class ExecutorScheduler final : public Scheduler {
 public:
  explicit ExecutorScheduler(std::function<void(std::function<void()>)> execute)
      : execute_(std::move(execute)), service_([] { return false; }, [] { return false; }) {}

  ~ExecutorScheduler() override { wait_until_posted_have_run(); }

  void post(Runnable& runnable) override {
    {
      MutexLock lock(mutex_);
      ++posted_;
    }
    execute_([this, &runnable] {
      const ExecutorScheduler* outer = std::exchange(running_here_, this);
      Turn turn;
      runnable.run(turn);
      running_here_ = outer;
      MutexLock lock(mutex_);
      if (--posted_ == 0) none_posted_.notify_all();
    });
  }

  TimePoint now() const override { return std::chrono::steady_clock::now(); }
  void add_timer(Timer& timer, TimePoint deadline) override { service_.add_timer(timer, deadline); }
  bool cancel_timer(Timer& timer) override { return service_.cancel_timer(timer); }
  void wait_for_turns_in_progress() override {
    if (running_here_ != this) wait_until_posted_have_run();
  }

 private:
  void wait_until_posted_have_run() {
    MutexLock lock(mutex_);
    while (posted_ > 0) none_posted_.wait(mutex_);
  }

  static inline constinit thread_local const ExecutorScheduler* running_here_ = nullptr;

  const std::function<void(std::function<void()>)> execute_;

  Mutex mutex_;
  CondVar none_posted_;
  std::size_t posted_ KEYWAY_GUARDED_BY(mutex_) = 0;

  ServiceThread service_;
};

}  // namespace

std::unique_ptr<Scheduler> make_executor_scheduler(
    std::function<void(std::function<void()>)> execute) {
  return std::make_unique<ExecutorScheduler>(std::move(execute));
}

}  // namespace keyway
