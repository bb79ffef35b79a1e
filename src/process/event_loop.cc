#include "process/event_loop.h"

#include <algorithm>
#include <cerrno>
#include <string>

#include <sys/eventfd.h>
#include <unistd.h>

#include "base/futex.h"
#include "base/system_error.h"
#include "runtime/current_scheduler.h"

namespace keyway {

EventLoop::EventLoop()
    : epoll_(epoll_create1(EPOLL_CLOEXEC)), wakeup_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = nullptr;  // the wakeup has no watcher
  if (!epoll_.is_open() || !wakeup_.is_open() ||
      epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wakeup_.get(), &event) != 0) {
    throw Exception(system_error("cannot make an event loop", errno));
  }
}

EventLoop::~EventLoop() {
  KEYWAY_CHECK(ready_.empty(), "an event loop was destroyed with work that is ready");
}

Result<void> EventLoop::watch(int descriptor, Watcher& watcher, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.ptr = &watcher;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) != 0) {
    return system_error("cannot wait for descriptor " + std::to_string(descriptor), errno);
  }
  ++watched_;
  return {};
}

void EventLoop::unwatch(int descriptor, Watcher& watcher) {
  const int failed = epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, descriptor, nullptr);
  KEYWAY_CHECK(failed == 0, "a descriptor was unwatched that is not watched");
  --watched_;
  for (int i = next_event_; i < event_count_; ++i) {
    epoll_event& event = events_[static_cast<std::size_t>(i)];
    if (event.data.ptr == &watcher) event.data.ptr = nullptr;
  }
}

// Posting publishes the item, then asks whether the loop sleeps; the loop says that it sleeps, then
// looks for items once more. seq_cst on both sides: one of the two sees the other.
void EventLoop::post(Runnable& runnable) {
  ready_.push(runnable);
  if (sleeping_.load(std::memory_order_seq_cst)) wake();
}

void EventLoop::add_timer(Timer& timer, TimePoint deadline) {
  const bool earliest = timers_.add(timer, deadline);
  if (earliest && sleeping_.load(std::memory_order_seq_cst)) wake();
}

void EventLoop::wake() {
  const std::uint64_t one = 1;
  // It fails only if the counter is full, and then the loop is awake.
  [[maybe_unused]] const ssize_t written = write(wakeup_.get(), &one, sizeof one);
}

bool EventLoop::run_one() {
  KEYWAY_CHECK(std::this_thread::get_id() == thread_, "an event loop runs on one thread");
  if (items_since_poll_ < kItemsBetweenPolls && run_ready_item()) return true;
  return poll();
}

bool EventLoop::run_ready_item() {
  Runnable* item = ready_.pop();
  if (item == nullptr) return false;
  ++items_since_poll_;
  Turn turn;
  turns_.fetch_add(1, std::memory_order_seq_cst);
  {
    const CurrentScheduler here(this);
    item->run(turn);
  }
  // seq_cst: pairs with wait_for_turns_in_progress(), which counts itself before it looks.
  turns_.fetch_add(1, std::memory_order_seq_cst);
  if (turn_waiters_.load(std::memory_order_seq_cst) > 0) futex_wake_all(turns_);
  if (turn.again != nullptr) ready_.push(*turn.again);
  return true;
}

Slept EventLoop::sleep(const detail::Atomic<std::uint32_t>& word, std::uint32_t expected,
                       const TimePoint* deadline) {
  const bool drives = Scheduler::current() == nullptr && std::this_thread::get_id() == thread_;
  if (!drives) return Scheduler::sleep(word, expected, deadline);
  struct Alarm final : Timer {
    void fire() override {}
  } alarm;  // so that run_one() does not sleep past the deadline
  if (deadline != nullptr) timers_.add(alarm, *deadline);
  Slept slept = Slept::kLookAgain;
  while (word.load(std::memory_order_acquire) == expected) {
    if (deadline != nullptr && now() >= *deadline) {
      slept = Slept::kTimedOut;
      break;
    }
    if (run_one()) continue;
    slept = Slept::kStuck;
    break;
  }
  if (deadline != nullptr) timers_.cancel(alarm);
  return slept;
}

bool EventLoop::wait_for_turns_in_progress(const TimePoint* deadline) {
  if (std::this_thread::get_id() == thread_) return true;
  const Deadline until = deadline != nullptr ? Deadline(*deadline) : std::nullopt;
  turn_waiters_.fetch_add(1, std::memory_order_seq_cst);
  const std::uint32_t seen = turns_.load(std::memory_order_seq_cst);
  const auto goes_on = [&] {
    return seen % 2 == 1 && turns_.load(std::memory_order_acquire) == seen;
  };
  bool in_time = true;
  while (in_time && goes_on()) in_time = futex_wait(turns_, seen, until);
  turn_waiters_.fetch_sub(1, std::memory_order_relaxed);
  return in_time || !goes_on();
}

bool EventLoop::poll() {
  items_since_poll_ = 0;
  if (!timers_.next_deadline() && watched_ == 0 && ready_.empty()) return false;
  sleeping_.store(true, std::memory_order_seq_cst);
  const int timeout = milliseconds_to_sleep();
  const int count =
      epoll_wait(epoll_.get(), events_.data(), static_cast<int>(events_.size()), timeout);
  sleeping_.store(false, std::memory_order_seq_cst);
  KEYWAY_CHECK(count >= 0 || errno == EINTR, "epoll_wait failed");
  timers_.fire_due(now());
  dispatch(count);
  return true;
}

// 0 if there is something to do already, -1 for ever. Rounded up: a timer that is not quite due
// would make the loop spin.
int EventLoop::milliseconds_to_sleep() {
  if (!ready_.empty()) return 0;
  const std::optional<TimePoint> next = timers_.next_deadline();
  if (!next) return -1;
  using std::chrono::milliseconds;
  const Duration left = *next - now();
  if (left <= Duration::zero()) return 0;
  const auto rounded = std::chrono::ceil<milliseconds>(left);
  return static_cast<int>(std::min(rounded, milliseconds(std::chrono::hours(24))).count());
}

void EventLoop::dispatch(int count) {
  next_event_ = 0;
  event_count_ = std::max(count, 0);
  while (next_event_ < event_count_) {
    const epoll_event& event = events_[static_cast<std::size_t>(next_event_++)];
    if (event.data.ptr == nullptr) {
      std::uint64_t wakes = 0;
      [[maybe_unused]] const ssize_t drained = read(wakeup_.get(), &wakes, sizeof wakes);
      continue;
    }
    static_cast<Watcher*>(event.data.ptr)->ready(event.events);
  }
}

}  // namespace keyway
