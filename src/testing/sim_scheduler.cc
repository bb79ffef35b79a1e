#include "keyway/testing/sim_scheduler.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "keyway/detail/check.h"
#include "runtime/current_scheduler.h"
#include "runtime/timer_queue.h"
#include "testing/fiber.h"

namespace keyway::testing {

class SimScheduler::Impl {
 public:
  Impl(SimScheduler& scheduler, std::optional<std::uint64_t> seed)
      : shuffles_(seed.has_value()), scheduler_(scheduler) {
    random_.seed(seed.value_or(0));
  }

  TimePoint now() const { return now_; }
  TimerQueue& timers() { return timers_; }
  std::size_t ready_count() const { return ready_.size() + woken_count(); }
  void post(Runnable& runnable) { ready_.push_back(&runnable); }

  std::uint64_t random_below(std::uint64_t bound) {
    return std::uniform_int_distribution<std::uint64_t>(0, bound - 1)(random_);
  }

  // Starts an item, or goes on with one that was woken. Without a seed, in order: those that were woken began first.
  bool run_ready_item() {
    const std::size_t woken = woken_count();
    const std::size_t choices = woken + ready_.size();
    if (choices == 0) return false;
    const std::size_t index = shuffles_ ? random_below(choices) : 0;
    if (index < woken) {
      go_on(take_woken(index));
    } else {
      begin(index - woken);
    }
    return true;
  }

  // False if there is nothing to do, until then.
  bool step(std::optional<TimePoint> until = std::nullopt) {
    // A timer of this very instant and a ready item may come in either order.
    const std::optional<TimePoint> next = timers_.next_deadline();
    const bool due = next && *next <= now_;
    if (shuffles_ && due && random_below(2) == 0) return timers_.fire_one(now_);
    return run_ready_item() || let_time_pass(until);
  }

  void advance(Duration duration) {
    const TimePoint until = now_ + duration;
    do {
      while (run_ready_item()) {
      }
    } while (let_time_pass(until));
    now_ = std::max(now_, until);
  }

  // In an item, others run meanwhile; outside of all items, the caller makes the steps.
  Slept sleep(const detail::Atomic<std::uint32_t>& word, std::uint32_t expected,
              const TimePoint* deadline) {
    const Sleep sleep{&word, expected, deadline};
    if (running_ != nullptr) {
      running_->sleep = sleep;
      running_->fiber.suspend();
    } else {
      while (!over(sleep)) {
        if (step(deadline != nullptr ? std::optional(*deadline) : std::nullopt)) continue;
        if (deadline == nullptr) return Slept::kStuck;
        now_ = std::max(now_, *deadline);
      }
    }
    return has_changed(sleep) ? Slept::kLookAgain : Slept::kTimedOut;
  }

 private:
  struct Sleep {
    const detail::Atomic<std::uint32_t>* word = nullptr;
    std::uint32_t expected = 0;
    const TimePoint* deadline = nullptr;
  };

  // An item on a stack of its own.
  struct Running final : Fiber::Body {
    explicit Running(Impl& impl) : owner(impl) {}
    void run_in_fiber() override {
      const CurrentScheduler here(&owner.scheduler_);
      Turn turn;
      item->run(turn);
      if (turn.again != nullptr) owner.post(*turn.again);
    }

    Impl& owner;
    Fiber fiber;
    Runnable* item = nullptr;
    Sleep sleep;
  };

  static bool has_changed(const Sleep& sleep) {
    return sleep.word->load(std::memory_order_acquire) != sleep.expected;
  }
  bool over(const Sleep& sleep) const {
    return has_changed(sleep) || (sleep.deadline != nullptr && now_ >= *sleep.deadline);
  }
  std::size_t woken_count() const {
    return static_cast<std::size_t>(
        std::count_if(asleep_.begin(), asleep_.end(),
                      [&](const std::unique_ptr<Running>& one) { return over(one->sleep); }));
  }
  std::unique_ptr<Running> take_woken(std::size_t index) {
    for (auto one = asleep_.begin();; ++one) {
      if (!over((*one)->sleep) || index-- > 0) continue;
      std::unique_ptr<Running> taken = std::move(*one);
      asleep_.erase(one);
      return taken;
    }
  }

  void begin(std::size_t index) {
    const auto place = ready_.begin() + static_cast<std::ptrdiff_t>(index);
    std::unique_ptr<Running> running;
    if (spare_.empty()) {
      running = std::make_unique<Running>(*this);
    } else {
      running = std::move(spare_.back());
      spare_.pop_back();
    }
    running->item = *place;
    ready_.erase(place);
    Running* const outer = std::exchange(running_, running.get());
    running->fiber.start(*running);
    running_ = outer;
    put_away(std::move(running));
  }
  void go_on(std::unique_ptr<Running> running) {
    Running* const outer = std::exchange(running_, running.get());
    running->fiber.resume();
    running_ = outer;
    put_away(std::move(running));
  }
  void put_away(std::unique_ptr<Running> running) {
    (running->fiber.idle() ? spare_ : asleep_).push_back(std::move(running));
  }

  // Moves the time to the next timer, which fires, or to the end of the next sleep. False if there is none until then.
  bool let_time_pass(std::optional<TimePoint> until) {
    const std::optional<TimePoint> timer = timers_.next_deadline();
    std::optional<TimePoint> next = timer;
    for (const std::unique_ptr<Running>& one : asleep_) {
      const TimePoint* deadline = one->sleep.deadline;
      if (deadline != nullptr && (!next || *deadline < *next)) next = *deadline;
    }
    if (!next || (until && *next > *until)) return false;
    now_ = std::max(now_, *next);
    if (timer && *timer <= now_) timers_.fire_one(now_);
    return true;
  }

  const bool shuffles_;
  SimScheduler& scheduler_;
  std::mt19937_64 random_;
  // Not the epoch: a time of zero means "not known" elsewhere.
  TimePoint now_{std::chrono::hours(1)};
  std::deque<Runnable*> ready_;
  std::vector<std::unique_ptr<Running>> asleep_;
  std::vector<std::unique_ptr<Running>> spare_;
  Running* running_ = nullptr;
  TimerQueue timers_;
};

SimScheduler::SimScheduler() : impl_(std::make_unique<Impl>(*this, std::nullopt)) {}
SimScheduler::SimScheduler(std::uint64_t seed) : impl_(std::make_unique<Impl>(*this, seed)) {}
SimScheduler::~SimScheduler() {
  KEYWAY_CHECK(
      users_ == 0,
      "a SimScheduler is destroyed before an executor that uses it; declare the simulation first");
}

bool SimScheduler::run_one() { return impl_->step(); }

std::size_t SimScheduler::run_until_idle() {
  std::size_t steps = 0;
  while (run_one()) ++steps;
  return steps;
}

std::size_t SimScheduler::run_ready() {
  std::size_t steps = 0;
  while (impl_->run_ready_item()) ++steps;
  return steps;
}

void SimScheduler::advance(Duration duration) { impl_->advance(duration); }
std::size_t SimScheduler::ready_count() const { return impl_->ready_count(); }
std::uint64_t SimScheduler::random_below(std::uint64_t bound) { return impl_->random_below(bound); }
void SimScheduler::post(Runnable& runnable) { impl_->post(runnable); }
TimePoint SimScheduler::now() const { return impl_->now(); }
void SimScheduler::add_timer(Timer& timer, TimePoint deadline) {
  impl_->timers().add(timer, deadline);
}
bool SimScheduler::cancel_timer(Timer& timer) { return impl_->timers().cancel(timer); }
Slept SimScheduler::sleep(const detail::Atomic<std::uint32_t>& word, std::uint32_t expected,
                          const TimePoint* deadline) {
  return impl_->sleep(word, expected, deadline);
}

}  // namespace keyway::testing
