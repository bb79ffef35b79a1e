// What happens to one record: attempts, waits between them, its end.
#include <algorithm>
#include <exception>
#include <utility>

#include "keyway/rest.h"
#include "stream/pipeline_item.h"

namespace keyway {

using std::chrono::system_clock;

namespace {

Outcome outcome_of(std::exception_ptr thrown) {
  try {
    std::rethrow_exception(std::move(thrown));
  } catch (const PermanentError& error) {
    return permanent_failure(error.what());
  } catch (const std::exception& error) {
    return retry(error.what());
  } catch (...) {
    return retry("it threw something that is no std::exception");
  }
}

std::string place_of(const Record& record) {
  return std::to_string(record.partition) + ":" + std::to_string(record.offset);
}

}  // namespace

Task<void> Pipeline::Engine::process(Item* in_flight) {
  Item& item = *in_flight;
  Partition& partition = item.partition();
  const Record& record = item.record();
  const auto first = system_clock::now();
  if (any_parked_ && is_parked(record)) {
    bury(item, 0, first, "parked: a record of its key is dead");
    co_return;
  }
  for (int number = 1; !partition.is_dropped() && !halts_; ++number) {
    const Attempt attempt{.number = number, .most = options_.retry.attempts};
    Outcome outcome;
    if (handler_.plain) {
      outcome = call_plain(record, attempt);
    } else {
      std::exception_ptr thrown;
      try {
        outcome = co_await call_coroutine(&record, attempt);
      } catch (...) {
        thrown = std::current_exception();
      }
      if (thrown) outcome = outcome_of(std::move(thrown));
    }
    if (outcome.kind == Outcome::kDone) {
      done_.fetch_add(1, std::memory_order_relaxed);
      if (number > 1) done_after_retry_.fetch_add(1, std::memory_order_relaxed);
      item.settle(Ledger::State::kDone);
      co_return;
    }
    if (outcome.kind == Outcome::kFailed || number >= options_.retry.attempts) {
      bury(item, number, first, outcome.reason);
      co_return;
    }
    retries_.fetch_add(1, std::memory_order_relaxed);
    if (item.entry() != nullptr) item.entry()->set_retrying(true);
    co_await rest(&partition, outcome.delay.value_or(backoff(number)));
    if (item.entry() != nullptr) item.entry()->set_retrying(false);
  }
}

Outcome Pipeline::Engine::call_plain(const Record& record, const Attempt& attempt) {
  try {
    return handler_.plain(record, attempt);
  } catch (...) {
    return outcome_of(std::current_exception());
  }
}

// With a timeout, it is asked to stop when the time is over; and when the pipeline's own task is.
Task<Outcome> Pipeline::Engine::call_coroutine(const Record* record, Attempt attempt) {
  const Duration timeout = options_.retry.attempt_timeout;
  if (timeout == Duration::zero()) co_return co_await handler_.coroutine(*record, attempt);
  struct Alarm final : Timer {
    void fire() override { stop.request_stop(); }
    std::stop_source stop;
  } alarm;
  const std::stop_callback outer(co_await current_stop_token(), [&] { alarm.stop.request_stop(); });
  scheduler_.add_timer(alarm, scheduler_.now() + timeout);
  std::exception_ptr thrown;
  Outcome outcome;
  try {
    outcome =
        co_await detail::with_stop(alarm.stop.get_token(), handler_.coroutine(*record, attempt));
  } catch (...) {
    thrown = std::current_exception();
  }
  const bool in_time = scheduler_.cancel_timer(alarm);
  if (!thrown) co_return outcome;
  if (in_time) std::rethrow_exception(thrown);
  co_return retry("it took longer than its timeout");
}

// Holds its key, and nothing else. Ends at once if the partition is dropped.
Task<void> Pipeline::Engine::rest(Partition* partition, Duration duration) {
  const auto sleep = [](Duration time) -> Task<void> { co_await sleep_for(time); };
  const std::unique_ptr<detail::TaskWait> resting = co_await detail::BeginRest{};
  try {
    co_await detail::with_stop(partition->drop.get_token(), sleep(duration));
  } catch (const CancelledError&) {
  }
  co_await detail::EndRest(resting.get());
}

// Full jitter: anything up to what would be the wait.
Duration Pipeline::Engine::backoff(int attempts) {
  Duration most = options_.retry.first;
  for (int i = 1; i < attempts && most < options_.retry.ceiling; ++i) most *= 2;
  most = std::min(most, options_.retry.ceiling);
  MutexLock lock(random_mutex_);
  return Duration(std::uniform_int_distribution<Duration::rep>(0, most.count())(random_));
}

void Pipeline::Engine::bury(Item& item, int attempts, system_clock::time_point first,
                            const std::string& cause) {
  const Record& record = item.record();
  const std::string source = source_.name();
  if (options_.dead_letters == nullptr) {
    return fail({ErrorCode::kIo, source + ":" + place_of(record) + ": " + cause +
                                     ", and there is nowhere to put dead letters"});
  }
  Result<void> stored = options_.dead_letters->store({.record = &record,
                                                      .source = source,
                                                      .attempts = attempts,
                                                      .cause = cause,
                                                      .first = first,
                                                      .last = system_clock::now()});
  if (!stored) return fail(stored.error());
  dead_.fetch_add(1, std::memory_order_relaxed);
  if (options_.on_dead == OnDead::kPark && record.key) {
    MutexLock lock(parked_mutex_);
    parked_.insert(std::string(*record.key));
    any_parked_ = true;
  }
  if (options_.on_dead == OnDead::kHalt) {
    halts_ = true;
    MutexLock lock(failure_mutex_);
    if (halted_by_.empty()) halted_by_ = place_of(record);
  }
  const bool halts = options_.on_dead == OnDead::kHalt;
  item.settle(Ledger::State::kDead);
  if (halts) wake();
}

bool Pipeline::Engine::is_parked(const Record& record) {
  if (!record.key) return false;
  MutexLock lock(parked_mutex_);
  return parked_.contains(*record.key);
}

void Pipeline::Engine::left(Partition& partition, std::size_t bytes) {
  partition.in_flight.fetch_sub(1);
  bytes_.fetch_sub(bytes);
  in_flight_.fetch_sub(1);
  if (pump_waits_) wake();
}

// Either its key has no room for it just now, or it is not wanted any more.
void Pipeline::Engine::left_unsettled(Item& item) {
  const std::size_t bytes = item.record().value.size();
  if (dispatching_ == std::this_thread::get_id()) {
    turned_away_ = std::move(item.record());
  } else {
    dropped_.fetch_add(1, std::memory_order_relaxed);
  }
  left(item.partition(), bytes);
}

void Pipeline::Engine::fail(Error error) {
  {
    MutexLock lock(failure_mutex_);
    if (!failure_) failure_ = std::move(error);
  }
  wake();
}

}  // namespace keyway
