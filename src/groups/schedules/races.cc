// Tasks with branches: all of them, the first of them, or one within a time.
#include <chrono>
#include <utility>

#include "groups/schedules/group_schedule.h"
#include "keyway/when_any.h"

namespace keyway {

namespace {

class Sleeping {
 public:
  explicit Sleeping(GroupOracle::Permits& permits) : permits_(permits) { permits_.begin_sleep(); }
  ~Sleeping() { permits_.end_sleep(); }
  Sleeping(const Sleeping&) = delete;
  Sleeping& operator=(const Sleeping&) = delete;

 private:
  GroupOracle::Permits& permits_;
};

}  // namespace

using std::chrono::microseconds;

// A task that comes back for one branch while another waits may leave tasks of its group waiting for each other: these
// then give the group's permit back, as after a limit that went down.
void GroupSchedule::begin_branches(Body& body, std::size_t index) {
  body.permits()->set_branches();
  oracle_.may_shrink(index);
}

// Branches that each wait for tasks. Each goes on when its own wait is over and the task has its permits.
Task<int> GroupSchedule::branches(std::size_t index, std::string id) {
  Body body(*this, index, id);
  if (!may_wait_in(body)) co_return 1;
  begin_branches(body, index);
  constexpr Stopped kStopped = Stopped::kOnRequest;
  if (one_in(2)) {
    co_await when_all(branch(body, index, id, 0, kStopped), branch(body, index, id, 1, kStopped));
  } else {
    co_await when_all(branch(body, index, id, 0, kStopped), branch(body, index, id, 1, kStopped),
                      branch(body, index, id, 2, kStopped));
  }
  co_return 1;
}

Task<int> GroupSchedule::races(std::size_t index, std::string id) {
  Body body(*this, index, id);
  if (!may_wait_in(body)) co_return 1;
  begin_branches(body, index);
  try {
    co_return co_await run_race(body, index, id);
  } catch (const CancelledError&) {
    expect(oracle_.task(id).may_be_stopped, "a race was cancelled for no reason: " + id);
    throw;
  }
}

Task<int> GroupSchedule::run_race(Body& body, std::size_t index, std::string id) {
  const auto pause = [](Duration time) -> Task<int> {
    co_await sleep_for(time);
    co_return 1;
  };
  const Duration time = microseconds(below(100));
  const TimePoint deadline = sim_.now() + time;
  switch (below(4)) {
    case 0:
      co_await when_any(branch(body, index, id, 0, Stopped::kByAnotherEnd),
                        branch(body, index, id, 1, Stopped::kByAnotherEnd));
      co_return 1;
    case 1:
      co_await when_any(branch(body, index, id, 0, Stopped::kByItself), pause(time));
      co_return 1;
    default:
      break;
  }
  const auto both = [&](Body& of, std::size_t group, std::string task) -> Task<int> {
    co_await when_all(branch(of, group, task, 0, Stopped::kByItself),
                      branch(of, group, task, 1, Stopped::kByItself));
    co_return 1;
  };
  try {
    if (one_in(2)) {
      co_await with_timeout(time, branch(body, index, id, 0, Stopped::kByItself));
    } else {
      co_await with_timeout(time, both(body, index, id));
    }
  } catch (const TimeoutError&) {
    expect(sim_.now() >= deadline, "with_timeout() timed out too soon: " + id);
  }
  co_return 1;
}

// Waits once or several times, and sleeps in between.
Task<int> GroupSchedule::branch(Body& body, std::size_t own_index, std::string task,
                                std::size_t number, Stopped stopped) {
  const std::string id = task + "-" + std::to_string(number);
  for (std::uint64_t wait = 1 + below(3); wait > 0; --wait) {
    co_await await_one(body, own_index, task, id + "-" + std::to_string(wait), stopped);
    if (one_in(3)) {
      const Sleeping sleeping(*body.permits());
      co_await sleep_for(microseconds(below(30)));
    }
  }
  co_return 1;
}

Task<void> GroupSchedule::await_one(Body& body, std::size_t own_index, std::string task,
                                    std::string id, Stopped stopped) {
  const std::size_t index = any_group();
  const TaskOptions options = with_a_cost(index, id);
  about_to_submit(index, id);
  try {
    TaskHandle<int> handle =
        executor_->submit(kScheduleGroups[index], options, [this, index, id, naps = below(3)] {
          return nap(index, id, naps, microseconds(1 + below(50)));
        });
    oracle_.seen_after_submit(id, handle.is_done());
    if (one_in(6)) co_return join(std::move(handle));
    Wait wait(oracle_, task, id, handle.is_done() ? nullptr : body.permits(), index == own_index,
              [&] { return handle.is_done(); });
    if (stopped == Stopped::kByItself) wait.ends_by_itself();
    const std::stop_token stop = co_await current_stop_token();
    if (stop.stop_requested()) wait.refused();  // it does not begin
    try {
      check_result(id, (co_await handle).status);
    } catch (const RejectedError&) {
      check_result(id, TaskStatus::kRejected);
    } catch (const Exception& error) {
      if (error.code() != ErrorCode::kCancelled) wait.refused();
      check_refusal(task, id, error, stopped);
    }
  } catch (const Exception& error) {
    oracle_.seen_after_submit(id, error.code() == ErrorCode::kShutdown);
    check_refusal(task, id, error, stopped);
  }
}

}  // namespace keyway
