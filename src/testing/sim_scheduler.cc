#include "keyway/testing/sim_scheduler.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <random>

#include "runtime/timer_queue.h"

namespace keyway::testing {

class SimScheduler::Impl {
 public:
  explicit Impl(std::optional<std::uint64_t> seed) : shuffles(seed.has_value()) {
    random.seed(seed.value_or(0));
  }

  void post(Runnable& runnable) { ready.push_back(&runnable); }

  bool run_ready_item() {
    if (ready.empty()) return false;
    const std::size_t index = shuffles ? random_below(ready.size()) : 0;
    Runnable* item = ready[index];
    ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(index));
    Turn turn;
    item->run(turn);
    if (turn.again != nullptr) post(*turn.again);
    return true;
  }

  bool fire_next_timer() {
    const std::optional<TimePoint> next = timers.next_deadline();
    if (!next) return false;
    now = std::max(now, *next);
    return timers.fire_one(now);
  }

  bool step() {
    // A timer of this very instant and a ready item may come in either order.
    const std::optional<TimePoint> next = timers.next_deadline();
    const bool due = next && *next <= now;
    if (shuffles && due && random_below(2) == 0) return timers.fire_one(now);
    return run_ready_item() || fire_next_timer();
  }

  void advance(Duration duration) {
    const TimePoint until = now + duration;
    while (true) {
      while (run_ready_item()) {
      }
      const std::optional<TimePoint> next = timers.next_deadline();
      if (!next || *next > until) break;
      fire_next_timer();
    }
    now = std::max(now, until);
  }

  std::uint64_t random_below(std::uint64_t bound) {
    return std::uniform_int_distribution<std::uint64_t>(0, bound - 1)(random);
  }

  const bool shuffles;
  std::mt19937_64 random;
  // Not the epoch: a time of zero means "not known" elsewhere.
  TimePoint now{std::chrono::hours(1)};
  std::deque<Runnable*> ready;
  TimerQueue timers;
};

SimScheduler::SimScheduler() : impl_(std::make_unique<Impl>(std::nullopt)) {}
SimScheduler::SimScheduler(std::uint64_t seed) : impl_(std::make_unique<Impl>(seed)) {}
SimScheduler::~SimScheduler() = default;

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
std::size_t SimScheduler::ready_count() const { return impl_->ready.size(); }
std::uint64_t SimScheduler::random_below(std::uint64_t bound) { return impl_->random_below(bound); }
void SimScheduler::post(Runnable& runnable) { impl_->post(runnable); }
TimePoint SimScheduler::now() const { return impl_->now; }
void SimScheduler::add_timer(Timer& timer, TimePoint deadline) {
  impl_->timers.add(timer, deadline);
}
bool SimScheduler::cancel_timer(Timer& timer) { return impl_->timers.cancel(timer); }

}  // namespace keyway::testing
