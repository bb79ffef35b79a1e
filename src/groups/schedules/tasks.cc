// What the tasks of a schedule do.
#include <chrono>
#include <utility>

#include "groups/schedules/group_schedule.h"

namespace keyway {

using std::chrono::microseconds;

GroupSchedule::Body::Body(GroupSchedule& schedule, std::size_t index, const std::string& id)
    : schedule_(schedule), id_(id) {
  if (!GroupOracle::is_conflated(id)) {
    permits_ = schedule.oracle_.task(id).permits.get();
  } else if (!schedule.oracle_.is_submitting(id)) {
    of_conflated_ = std::make_unique<Permits>(schedule.oracle_, index, 1);
    permits_ = of_conflated_.get();
  }
}

GroupSchedule::Body::~Body() {
  if (!GroupOracle::is_conflated(id_)) schedule_.oracle_.task(id_).permits = nullptr;
}

void GroupSchedule::submit_any(std::size_t index) {
  const std::string id = next_id();
  switch (below(6)) {
    case 0:
      return submit(index, id, [this, index, id] {
        Body body(*this, index, id);
        return 1;
      });
    case 1:
      return submit(index, id, [this, index, id]() -> int {
        Body body(*this, index, id);
        throw 42;  // not an exception class, and still it must arrive
      });
    case 2:
      return submit(index, id, [this, index, id](std::stop_token stop) -> int {
        Body body(*this, index, id);
        if (stop.stop_requested()) throw CancelledError();
        return 1;
      });
    case 3:
      return submit(index, id, [this, index, id, patient = one_in(2)] {
        return patient ? nested_patiently(index, id) : nested(index, id);
      });
    default:
      return submit(index, id, [this, index, id, naps = 1 + below(3)] {
        return nap(index, id, naps, microseconds(1 + below(100)));
      });
  }
}

Task<int> GroupSchedule::nap(std::size_t index, std::string id, std::uint64_t naps,
                             Duration length) {
  Body body(*this, index, id);
  for (; naps > 0; --naps) co_await sleep_for(length);
  co_return 1;
}

// A cycle, the end of the executor, or a stop request to the waiting task.
void GroupSchedule::check_refusal(const std::string& waiter, const Exception& error) {
  const GroupOracle::Task& task = oracle_.task(waiter);
  switch (error.code()) {
    case ErrorCode::kWaitCycle:
      return;
    case ErrorCode::kCancelled:
      return expect(task.may_be_stopped, "a wait of " + waiter + " was cancelled for no reason");
    case ErrorCode::kShutdown:
      return expect(oracle_.is_shut_down(), "a submit of " + waiter + " was refused too soon");
    default:
      expect(false, "a wait of " + waiter + " failed: " + error.what());
  }
}

// Submits to its own or another group, and waits for that task.
Task<int> GroupSchedule::nested(std::size_t index, std::string id) {
  Body body(*this, index, id);
  const std::size_t inner_index = any_group();
  const std::string inner_id = id + "-inner";
  bool refused = false;
  try {
    TaskHandle<int> inner =
        executor_->submit(kScheduleGroups[inner_index], inner_id, [this, inner_index, inner_id] {
          Body inner_body(*this, inner_index, inner_id);
          return 1;
        });
    oracle_.submit_returned();
    const bool waits = !inner.is_done() && body.permits() != nullptr;
    const bool same_group = inner_index == index;
    if (waits) body.permits()->begin_wait(same_group);
    try {
      (void)co_await inner;
    } catch (const RejectedError&) {
    } catch (const Exception& error) {
      refused = error.code() == ErrorCode::kWaitCycle;
      check_refusal(id, error);
    }
    if (waits) body.permits()->end_wait(same_group, refused);
  } catch (const Exception& error) {
    check_refusal(id, error);
  }
  co_return 1;
}

// The same, but waits for room if there is none.
Task<int> GroupSchedule::nested_patiently(std::size_t index, std::string id) {
  Body body(*this, index, id);
  const std::size_t inner_index = any_group();
  const std::string inner_id = id + "-inner";
  oracle_.task(inner_id).waits_for_room = true;
  // Whether it waits for room, and so gives permits back, is not known: no limit is checked afterwards.
  if (body.permits() != nullptr) body.permits()->begin_wait(/*same_group=*/true);
  try {
    const TaskOptions options{.id = inner_id};
    const auto work = [this, inner_index, inner_id] {
      Body inner_body(*this, inner_index, inner_id);
      return 1;
    };
    auto submitted = executor_->submit_async(kScheduleGroups[inner_index], options, work);
    Result<TaskHandle<int>> inner = co_await submitted;
    oracle_.submit_returned();
    if (!inner.ok()) {
      check_refusal(id, Exception(inner.error()));
    } else if (one_in(2)) {
      (void)co_await *inner;
    }
  } catch (const RejectedError&) {
  } catch (const Exception& error) {
    check_refusal(id, error);
  }
  if (body.permits() != nullptr) body.permits()->end_wait(/*same_group=*/true, /*refused=*/true);
  co_return 1;
}

}  // namespace keyway
