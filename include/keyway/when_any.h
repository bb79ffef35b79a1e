// The first of several coroutines, and a bound on the time that one may take.
//
//   auto [index, page] = co_await keyway::when_any(fetch(mirrors));                 // a std::vector<Task<Page>>
//   Page page = co_await keyway::with_timeout(200ms, fetch("a"));                   // or throws TimeoutError
//
// when_any(), when_all() and with_timeout() also take what has a name and is awaited elsewhere: a TaskHandle, and
// what lock_async() returns; alone, together with Tasks, or (handles) as a std::vector by reference.
//
//   TaskHandle<Page> handle = executor.submit("vip", fetch_page);
//   GroupResult<Page> result = co_await keyway::with_timeout(200ms, handle);
//   auto lock = locks.lock_async("blog");
//   KeyLocks::Guard guard = co_await keyway::with_timeout(200ms, lock);
//
// A timeout ends the wait for a handle, not its task, and the handle can be awaited again; so can those that
// when_any() gave up. A handle whose task has ended when the timeout fires gives its result. What lock_async()
// returns is awaited once.
//
// Guarantees:
//   (1) Structured: both return or throw when every task that was started has ended. The end of the first
//       task requests stop of the others, and both wait for a task that ignores its stop token.
//   (2) A stop request of the surrounding task reaches all tasks.
//   (3) A task that has not started when the first one ends is destroyed unrun.
//
// Thread safety and lifetime: as those of a Task.
#pragma once

#include "keyway/detail/require_cpp20.h"

#include <coroutine>
#include <cstddef>
#include <optional>
#include <stop_token>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "keyway/detail/atomic.h"
#include "keyway/detail/request_stop.h"
#include "keyway/task.h"

namespace keyway {

// The index of the task that ended first, and its value; std::monostate for a Task<void>.
template <class... T>
struct WhenAny {
  static_assert(!(std::is_reference_v<T> || ...), "when_any() gives values: return a pointer");
  std::size_t index = 0;
  // Without references: std::variant would refuse them with a message of its own.
  std::variant<detail::NonVoid<std::remove_reference_t<T>>...> value;
};
template <class T>
struct WhenAnyOf {
  static_assert(!std::is_reference_v<T>, "when_any() gives values: return a pointer");
  std::size_t index = 0;
  detail::NonVoid<T> value;
};

namespace detail {

// Runs tasks concurrently. The first task to end requests stop of the others.
class Race {
 public:
  explicit Race(std::size_t tasks) : Race(tasks, tasks) {}
  // `working`: the tasks that run code of the user.
  Race(std::size_t tasks, std::size_t working) : tasks_(tasks), latch_(tasks, working) {
    branches_.reserve(tasks);
  }
  Race(const Race&) = delete;
  Race& operator=(const Race&) = delete;

  // Calls `start_all`, which calls start() for each task. REQUIRES: called once.
  template <class StartAll>
  void begin(const TaskContext& outer, StartAll& start_all) {
    (void)outer.operation.id();  // by which the branches find each other, see WaitGraph
    if (outer.stop.stop_possible()) on_outer_stop_.emplace(outer.stop, ForwardStop{this});
    latch_.begin(outer.operation, [&] { start_all(outer); });
  }
  template <class T>
  void start(Task<T>& task, const TaskContext& context) {
    if (winner_.load(std::memory_order_relaxed) != kNone) {
      latch_.skip();  // is never the last: the caller has not called wait() yet
      return;
    }
    Branch& branch = branches_.emplace_back(*this, branches_.size(), branch_of(context));
    branch.context.stop = stop_.get_token();
    branch.context.operation.race_branches = static_cast<std::uint32_t>(tasks_);
    latch_.starts_one();
    TaskAccess::start(task, branch.context, branch);
  }
  // True if a task has not ended: the caller suspends.
  bool wait(std::coroutine_handle<> waiting) noexcept { return latch_.wait(waiting); }
  // REQUIRES: all have ended.
  std::size_t winner() const { return winner_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  struct ForwardStop {
    Race* race;
    void operator()() const { detail::request_stop(race->stop_); }
  };
  struct Branch final : Completion {
    Branch(Race& its_race, std::size_t its_index, const TaskContext& its_context)
        : race(&its_race), index(its_index), context(its_context) {}
    std::coroutine_handle<> done() noexcept override { return race->ended(index); }

    Race* race;
    std::size_t index;
    TaskContext context;
  };

  std::coroutine_handle<> ended(std::size_t index) noexcept {
    std::size_t none = kNone;
    // relaxed: the latch orders it before winner().
    if (winner_.compare_exchange_strong(none, index, std::memory_order_relaxed)) {
      detail::request_stop(stop_);
    }
    return latch_.done();
  }

  const std::size_t tasks_;
  WhenAllLatch latch_;
  Atomic<std::size_t> winner_{kNone};
  std::stop_source stop_;
  std::vector<Branch> branches_;
  // Destroyed first: its destructor waits for a running callback, which uses stop_.
  std::optional<std::stop_callback<ForwardStop>> on_outer_stop_;
};

// `start` starts the tasks of the race.
template <class Start>
struct RaceAwaiter {
  bool await_ready() const noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> waiting) {
    race.begin(context_of(waiting), start);
    return race.wait(waiting);
  }
  void await_resume() const noexcept {}

  Race& race;
  Start& start;
};

template <std::size_t... I, class... T>
WhenAny<T...> take_winner(std::index_sequence<I...>, std::size_t winner, Task<T>&... tasks) {
  std::optional<WhenAny<T...>> taken;
  const auto take = [&]<std::size_t Index>(std::in_place_index_t<Index> place, auto& task) {
    if (Index == winner) {
      using Value = decltype(WhenAny<T...>::value);
      taken.emplace(WhenAny<T...>{winner, Value(place, take_non_void(task))});
    }
  };
  (take(std::in_place_index<I>, tasks), ...);
  return *std::move(taken);
}

[[noreturn]] void throw_no_tasks();
[[noreturn]] void throw_timed_out(Duration timeout);
// Sets `over` when `time` has passed; throws CancelledError on a stop request, as sleep_for() does.
Task<void> pass_time(Duration time, bool* over);

}  // namespace detail

// Runs the tasks concurrently. Returns the value of the first task to end, or throws its exception.
template <class... T>
  requires(sizeof...(T) > 0)
Task<WhenAny<T...>> when_any(Task<T>... tasks) {
  detail::Race race(sizeof...(T));
  auto start = [&](const detail::TaskContext& context) { (race.start(tasks, context), ...); };
  detail::RaceAwaiter<decltype(start)> awaiter{race, start};
  co_await awaiter;
  co_return detail::take_winner(std::index_sequence_for<T...>(), race.winner(), tasks...);
}

// Throws Exception (kInvalidArgument) for no tasks: none would ever end.
template <class T>
Task<WhenAnyOf<T>> when_any(std::vector<Task<T>> tasks) {
  if (tasks.empty()) detail::throw_no_tasks();
  detail::Race race(tasks.size());
  auto start = [&](const detail::TaskContext& context) {
    for (Task<T>& task : tasks) race.start(task, context);
  };
  detail::RaceAwaiter<decltype(start)> awaiter{race, start};
  co_await awaiter;
  co_return WhenAnyOf<T>{race.winner(), detail::take_non_void(tasks[race.winner()])};
}

// Returns the task's value, or throws its exception, if it ends before the timeout fires. Otherwise
// requests its stop, waits for its end, and throws TimeoutError, whatever the task's result is. The
// timeout cannot fire before the task has suspended for the first time, nor while no thread is free.
template <class T>
Task<T> with_timeout(Duration timeout, Task<T> task) {
  bool over = false;
  Task<void> clock = detail::pass_time(timeout, &over);
  detail::Race race(2, 1);  // the clock needs no permits
  auto start = [&](const detail::TaskContext& context) {
    race.start(task, context);
    race.start(clock, context);
  };
  detail::RaceAwaiter<decltype(start)> awaiter{race, start};
  co_await awaiter;
  if (over && race.winner() == 1) detail::throw_timed_out(timeout);
  co_return detail::TaskAccess::take(task);
}

}  // namespace keyway

#include "keyway/detail/named_waits.h"
