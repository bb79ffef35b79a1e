// What the tasks of a schedule do.
#include <array>
#include <chrono>
#include <utility>

#include "groups/schedules/group_schedule.h"
#include "keyway/rest.h"

namespace keyway {

using std::chrono::microseconds;

GroupSchedule::Body::Body(GroupSchedule& schedule, std::size_t index, const std::string& id)
    : schedule_(schedule), id_(id) {
  if (schedule.oracle_.unheard()) schedule.oracle_.started(index, id);
  if (!GroupOracle::is_conflated(id)) {
    permits_ = schedule.oracle_.task(id).permits.get();
  } else if (!schedule.oracle_.is_run_by_caller()) {
    of_conflated_ = std::make_unique<Permits>(schedule.oracle_, index, 1);
    permits_ = of_conflated_.get();
  }
}

GroupSchedule::Body::~Body() {
  if (!GroupOracle::is_conflated(id_)) schedule_.oracle_.body_ended(id_);
}

void GroupSchedule::submit_any(std::size_t index) {
  const std::string id = next_id();
  switch (below(11)) {
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
    case 4:
      return submit(index, id, [this, index, id] { return rests(index, id); });
    case 5:
      return submit(index, id, [this, index, id] { return branches(index, id); });
    case 6:
      return submit(index, id, [this, index, id] { return acts_once(index, id); });
    case 7:
      return submit(index, id, [this, index, id] { return races(index, id); });
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

void GroupSchedule::check_refusal(const std::string& waiter, const std::string& target,
                                  const Exception& error, Stopped stopped) {
  const GroupOracle::Task& task = oracle_.task(waiter);
  switch (error.code()) {
    case ErrorCode::kWaitCycle:
      return expect(is_refusal(error, stopped != Stopped::kByItself &&
                                          oracle_.may_be_a_cycle(waiter, target)),
                    "a wait of " + waiter + " was refused: " + error.what());
    case ErrorCode::kNoThread:
      return expect(oracle_.no_thread_is_free(),
                    "a wait of " + waiter + " was refused: " + error.what());
    case ErrorCode::kCancelled:
      return expect(task.may_be_stopped || stopped != Stopped::kOnRequest,
                    "a wait of " + waiter + " was cancelled for no reason");
    case ErrorCode::kShutdown:
      return expect(oracle_.is_shut_down(), "a submit of " + waiter + " was refused too soon");
    default:
      expect(false, "a wait of " + waiter + " failed: " + error.what());
  }
}

// Submits to its own or another group, and waits for that task.
Task<int> GroupSchedule::nested(std::size_t index, std::string id) {
  Body body(*this, index, id);
  if (!may_wait_in(body)) co_return 1;
  const std::size_t inner_index = any_group();
  const std::string inner_id = id + "-inner";
  const TaskOptions options = with_a_cost(inner_index, inner_id);
  about_to_submit(inner_index, inner_id);
  try {
    TaskHandle<int> inner =
        executor_->submit(kScheduleGroups[inner_index], options, [this, inner_index, inner_id] {
          Body inner_body(*this, inner_index, inner_id);
          return 1;
        });
    oracle_.seen_after_submit(inner_id, inner.is_done());
    Wait wait(oracle_, id, inner_id, inner.is_done() ? nullptr : body.permits(),
              inner_index == index, [&] { return inner.is_done(); });
    const std::stop_token stop = co_await current_stop_token();
    if (stop.stop_requested()) wait.refused();  // it does not begin
    try {
      check_result(inner_id, (co_await inner).status);
    } catch (const RejectedError&) {
      check_result(inner_id, TaskStatus::kRejected);
    } catch (const Exception& error) {
      if (error.code() != ErrorCode::kCancelled) wait.refused();
      check_refusal(id, inner_id, error);
    }
  } catch (const Exception& error) {
    oracle_.seen_after_submit(inner_id, error.code() == ErrorCode::kShutdown);
    check_refusal(id, inner_id, error);
  }
  co_return 1;
}

// The same, but waits for room if there is none.
Task<int> GroupSchedule::nested_patiently(std::size_t index, std::string id) {
  Body body(*this, index, id);
  if (!may_wait_in(body)) co_return 1;
  const std::size_t inner_index = any_group();
  const std::string inner_id = id + "-inner";
  const TaskOptions options = with_a_cost(inner_index, inner_id);
  oracle_.task(inner_id).waits_for_room = true;
  about_to_submit(inner_index, inner_id);
  Wait wait(oracle_, id, inner_id, body.permits(), /*same_group=*/true, nullptr);
  wait.refused();  // it may not have to wait at all
  try {
    const auto work = [this, inner_index, inner_id] {
      Body inner_body(*this, inner_index, inner_id);
      return 1;
    };
    auto submitted = executor_->submit_async(kScheduleGroups[inner_index], options, work);
    Result<TaskHandle<int>> inner = co_await submitted;
    oracle_.seen_after_submit(inner_id, !inner.ok() || inner->is_done());
    if (!inner.ok()) {
      check_refusal(id, inner_id, Exception(inner.error()));
    } else if (one_in(2)) {
      check_result(inner_id, (co_await *inner).status);
    }
  } catch (const RejectedError&) {
    check_result(inner_id, TaskStatus::kRejected);
  } catch (const Exception& error) {
    oracle_.seen_after_submit(inner_id, error.code() == ErrorCode::kShutdown);
    check_refusal(id, inner_id, error);
  }
  co_return 1;
}

// Gives its global permit away for a while.
Task<int> GroupSchedule::rests(std::size_t index, std::string id) {
  Body body(*this, index, id);
  for (std::uint64_t i = 1 + below(2); i > 0; --i) {
    co_await sleep_for(microseconds(below(20)));
    const TimePoint until = sim_.now() + microseconds(20);
    if (body.permits() != nullptr) body.permits()->begin_rest();
    bool stopped = false;
    try {
      co_await rest_for(microseconds(20));
    } catch (const CancelledError&) {
      stopped = true;
    }
    if (body.permits() != nullptr) body.permits()->end_rest();
    expect(stopped ? oracle_.task(id).may_be_stopped : sim_.now() >= until,
           "a rest was over too soon: " + id);
    if (stopped) throw CancelledError();
  }
  co_return 1;
}

// A plain callable, which blocks.
int GroupSchedule::acts_once(std::size_t index, const std::string& id) {
  Body body(*this, index, id);
  if (may_wait_in(body)) act();
  return 1;
}

}  // namespace keyway
