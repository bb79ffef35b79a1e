// What happens to one record: attempts, waits between them, its end.
#include <algorithm>
#include <exception>
#include <utility>

#include "keyway/rest.h"
#include "keyway/when_any.h"
#include "stream/pipeline_batch.h"

namespace keyway {

using std::chrono::system_clock;

Outcome Pipeline::Engine::outcome_of(std::exception_ptr thrown) {
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

// For people: a handler need not give a reason.
std::string Pipeline::Engine::reason_of(const Outcome& outcome) {
  if (!outcome.reason.empty()) return outcome.reason;
  return outcome.kind == Outcome::kFailed ? "the handler gave up on it"
                                          : "the handler asked for a retry";
}

// Most records are done by their first try, without waiting for anything: they need no large frame.
// It must not throw: a failed task has no TaskEnd that wakes the pump.
Task<Pipeline::Engine::TaskEnd> Pipeline::Engine::process(Item* in_flight) {
  Tries tries;
  try {
    if (!settled_untried(*in_flight) && !settled_at_once(*in_flight, tries)) {
      co_await process_in_turns(in_flight, tries);
    }
  } catch (...) {
    fail_by(std::current_exception());
  }
  co_return TaskEnd(*this, in_flight->key());
}

bool Pipeline::Engine::settled_at_once(Item& item, Tries& tries) {
  tries.first = system_clock::now();
  if (!handler_.plain || calls_ || options_.rate) return false;
  if (item.partition().is_dropped() || halts_) return true;
  return judge(item, tries, call_plain(item.record(), begin_try(tries, item.since()))) ==
         Judged::kOver;
}

Attempt Pipeline::Engine::begin_try(Tries& tries, TimePoint queued) const {
  return {.number = ++tries.number, .most = options_.retry.attempts, .queued = queued};
}

Task<void> Pipeline::Engine::process_in_turns(Item* in_flight, Tries tries) {
  Item& item = *in_flight;
  const Partition& partition = item.partition();
  TimePoint queued = item.since();
  while (true) {
    if (tries.number > 0) {
      co_await rest(partition.drop.get_token(), tries.wait);
      if (item.entry() != nullptr) item.entry()->set_retrying(false);
      queued = handling_.now();
    }
    if (options_.rate) {
      const Duration wait = until_rate_allows();
      if (wait > Duration::zero()) co_await rest(partition.drop.get_token(), wait);
    }
    if (partition.is_dropped() || halts_) co_return;
    const Attempt now = begin_try(tries, queued);
    std::optional<Outcome> outcome;
    if (handler_.plain && !calls_) {
      outcome = call_plain(item.record(), now);
    } else {
      outcome = co_await attempt(&item, now);
    }
    if (!outcome || judge(item, tries, *outcome) == Judged::kOver) co_return;
  }
}

// Whether it is done, or dead, as it is.
bool Pipeline::Engine::settled_untried(Item& item) {
  const Record& record = item.record();
  const char* cause = nullptr;
  if (!record.defect.empty()) cause = record.defect.c_str();
  if (any_parked_ && is_parked(record)) cause = "parked: a record of its key is dead";
  if (cause != nullptr) {
    if (closed_) return true;
    if (!item.partition().is_dropped() && !halts_) {
      bury(item, {.first = system_clock::now()}, permanent_failure(cause));
    }
    return true;
  }
  if (options_.handled_ids == nullptr) return false;
  const Storing storing(*this);
  if (!storing) return true;
  const Result<bool> handled = options_.handled_ids->contains(source_.unique_id_of(record));
  if (!handled) {
    fail(handled.error());
    return true;
  }
  if (!*handled) return false;
  duplicates_.fetch_add(1, std::memory_order_relaxed);
  item.settle(Ledger::State::kDone);
  return true;
}

// What is to become of it after an attempt.
Pipeline::Engine::Judged Pipeline::Engine::judge(Item& item, Tries& tries, const Outcome& outcome) {
  if (closed_) return Judged::kOver;  // it comes again in another run
  if (outcome.kind == Outcome::kDone) {
    if (options_.handled_ids != nullptr) {
      const Storing storing(*this);
      if (!storing) return Judged::kOver;
      Result<void> added = options_.handled_ids->add(source_.unique_id_of(item.record()));
      if (!added) {
        fail(added.error());
        return Judged::kOver;
      }
    }
    done_.fetch_add(1, std::memory_order_relaxed);
    if (tries.number > 1) done_after_retry_.fetch_add(1, std::memory_order_relaxed);
    item.settle(Ledger::State::kDone);
    return Judged::kOver;
  }
  if (outcome.kind == Outcome::kFailed || tries.number >= options_.retry.attempts) {
    bury(item, tries, outcome);
    return Judged::kOver;
  }
  retries_.fetch_add(1, std::memory_order_relaxed);
  if (item.entry() != nullptr) item.entry()->set_retrying(true);
  tries.wait = outcome.delay.value_or(backoff(tries.number));
  return Judged::kAgain;
}

// Whatever it throws is an outcome. None: before its call could begin, it was not wanted any more.
Task<std::optional<Outcome>> Pipeline::Engine::attempt(Item* item, Attempt attempt) {
  std::exception_ptr thrown;
  try {
    if (batch_line_ != nullptr) {
      BatchMember member(*batch_line_, item->partition(), {&item->record(), attempt});
      co_await batch_line_->join(&member);
      co_return std::move(member.outcome);
    }
    if (calls_) co_return co_await call_in_group(item, attempt);
    co_return co_await call_coroutine(&item->record(), attempt);
  } catch (...) {
    thrown = std::current_exception();
  }
  co_return outcome_of(std::move(thrown));
}

Task<std::optional<Outcome>> Pipeline::Engine::call_in_group(Item* item, Attempt attempt) {
  const Record& record = item->record();
  const std::string_view name = record.group.value_or(record.key.value_or(std::string_view()));
  auto call = [this, item, attempt] { return call_if_wanted(item, attempt); };
  TaskHandle<std::optional<Outcome>> handle = calls_->submit(group_of_calls(name), "", call);
  // The call refers to the item, so this task waits for its end even after a stop request.
  const auto end_of =
      [](TaskHandle<std::optional<Outcome>>* task) -> Task<GroupResult<std::optional<Outcome>>> {
    co_return co_await *task;
  };
  GroupResult<std::optional<Outcome>> result =
      co_await detail::with_stop(std::stop_token(), end_of(&handle));
  co_return std::move(result.value());
}

Task<std::optional<Outcome>> Pipeline::Engine::call_if_wanted(Item* item, Attempt attempt) {
  if (item->partition().is_dropped() || halts_) co_return std::nullopt;
  if (handler_.plain) co_return call_plain(item->record(), attempt);
  co_return co_await call_coroutine(&item->record(), attempt);
}

Outcome Pipeline::Engine::call_plain(const Record& record, const Attempt& attempt) {
  const Measured measured(*this, attempt.queued);
  try {
    return handler_.plain(record, attempt);
  } catch (...) {
    return outcome_of(std::current_exception());
  }
}

// With a timeout, it is asked to stop when the time is over. An outcome that it returns all the same stands.
Task<Outcome> Pipeline::Engine::call_coroutine(const Record* record, Attempt attempt) {
  const Measured measured(*this, attempt.queued);
  const Duration timeout = options_.retry.attempt_timeout;
  if (timeout == Duration::zero()) co_return co_await handler_.coroutine(*record, attempt);
  std::optional<Outcome> outcome;
  const auto call = [](Task<Outcome> handling, std::optional<Outcome>* result) -> Task<void> {
    *result = co_await std::move(handling);
  };
  bool in_time = true;
  try {
    co_await with_timeout(timeout, call(handler_.coroutine(*record, attempt), &outcome));
  } catch (const TimeoutError&) {
    in_time = false;
  }
  if (outcome) co_return *std::move(outcome);
  co_return retry(in_time ? "it gave no outcome" : "it took longer than its timeout");
}

// Holds its key, and nothing else. Ends at once if the partition is dropped, whose stop token this is.
Task<void> Pipeline::Engine::rest(std::stop_token dropped, Duration duration) {
  const auto sleep = [](Duration time) -> Task<void> { co_await sleep_for(time); };
  const std::unique_ptr<detail::TaskWait> resting = co_await detail::BeginRest{};
  try {
    co_await detail::with_stop(std::move(dropped), sleep(duration));
  } catch (const CancelledError&) {
  }
  co_await detail::EndRest(resting.get());
}

// Full jitter: anything up to what would be the wait.
Duration Pipeline::Engine::backoff(int attempts) {
  Duration most = options_.retry.first;
  const Duration ceiling = options_.retry.ceiling;
  for (int i = 1; i < attempts && most < ceiling; ++i) {
    most = most > ceiling / 2 ? ceiling : most * 2;
  }
  most = std::min(most, ceiling);
  MutexLock lock(random_mutex_);
  return Duration(std::uniform_int_distribution<Duration::rep>(0, most.count())(random_));
}

// Takes a token of PipelineOptions::rate, and returns how long the attempt must wait before it uses
// it.
Duration Pipeline::Engine::until_rate_allows() {
  const TimePoint now = scheduler_.now();
  MutexLock lock(rate_mutex_);
  return rate_->take_in_advance(now) - now;
}

void Pipeline::Engine::bury(Item& item, const Tries& tries, const Outcome& outcome) {
  const Storing storing(*this);
  if (!storing) return;
  const Record& record = item.record();
  const std::string reason = reason_of(outcome);
  if (options_.dead_letters == nullptr) {
    return fail({ErrorCode::kIo, source_.place_of(record) + ": " + reason +
                                     ", and there is nowhere to put dead letters"});
  }
  const std::string source = source_.name();
  const std::string id = source_.id_of(record);
  const std::string unique_id = source_.unique_id_of(record);
  Result<void> stored = options_.dead_letters->store({.record = &record,
                                                      .source = source,
                                                      .id = id,
                                                      .unique_id = unique_id,
                                                      .attempts = tries.number,
                                                      .cause = reason,
                                                      .exit = outcome.exit,
                                                      .stderr_tail = outcome.stderr_tail,
                                                      .first = tries.first,
                                                      .last = system_clock::now()});
  if (!stored) return fail(stored.error());
  dead_.fetch_add(1, std::memory_order_relaxed);
  if (options_.on_dead == OnDead::kPark && record.key) {
    MutexLock lock(parked_mutex_);
    parked_.insert(std::string(*record.key));
    any_parked_ = true;
  }
  const bool halts = options_.on_dead == OnDead::kHalt;
  if (halts) {
    halts_ = true;
    std::string place = source_.place_of(record);  // user code: under no lock
    MutexLock lock(failure_mutex_);
    if (halted_by_.empty()) halted_by_ = std::move(place);
  }
  item.settle(Ledger::State::kDead);
  if (halts) wake();
}

bool Pipeline::Engine::is_parked(const Record& record) {
  if (!record.key) return false;
  MutexLock lock(parked_mutex_);
  return parked_.contains(*record.key);
}

void Pipeline::Engine::count_out(Partition& partition) {
  partition.in_flight.fetch_sub(1);
  in_flight_.fetch_sub(1);
}

// Either its key has no room for it just now, or it is not wanted any more.
void Pipeline::Engine::left_unsettled(Item& item) {
  if (dispatching_.load(std::memory_order_relaxed) == std::this_thread::get_id()) {
    turned_away_ = std::move(item.record());
    return count_out(item.partition());  // the pump itself runs here: no wake-up
  }
  bytes_.fetch_sub(item.record().value.size());
  dropped_.fetch_add(1, std::memory_order_relaxed);
  count_out(item.partition());
  wake();
}

// For exceptions of the source or of a store (dead letters, handled ids). Exceptions of handlers
// are outcomes.
Error Pipeline::Engine::error_of(std::exception_ptr thrown) {
  return {ErrorCode::kIo, "the source or a store threw: " + outcome_of(std::move(thrown)).reason};
}

void Pipeline::Engine::fail_by(std::exception_ptr thrown) { fail(error_of(std::move(thrown))); }

void Pipeline::Engine::fail(Error error) {
  halts_ = true;  // records of its key must not overtake one that is not settled
  {
    MutexLock lock(failure_mutex_);
    if (!failure_) failure_ = std::move(error);
  }
  wake();
}

}  // namespace keyway
