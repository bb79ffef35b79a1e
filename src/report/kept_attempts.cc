#include "report/kept_attempts.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace keyway {
namespace {

bool failed(const LoggedAttempt& attempt) {
  return attempt.outcome == AttemptOutcome::kFailed || attempt.outcome == AttemptOutcome::kTimedOut;
}

}  // namespace

bool KeptAttempts::Longest::would_keep(Length length) const {
  return heap_.size() < most_ || (most_ > 0 && length > heap_.front().length);
}

void KeptAttempts::Longest::add(Length length, Kept attempt) {
  const auto longer = [](const Ranked& a, const Ranked& b) { return a.length > b.length; };
  if (heap_.size() == most_) {
    std::pop_heap(heap_.begin(), heap_.end(), longer);
    heap_.pop_back();
  }
  heap_.push_back({length, std::move(attempt)});
  std::push_heap(heap_.begin(), heap_.end(), longer);
}

std::vector<KeptAttempts::Kept> KeptAttempts::Longest::top(std::size_t n) const {
  std::vector<Ranked> sorted = heap_;
  std::sort(sorted.begin(), sorted.end(), [](const Ranked& a, const Ranked& b) {
    if (a.length != b.length) return a.length > b.length;
    return a.attempt->seq < b.attempt->seq;
  });
  sorted.resize(std::min(n, sorted.size()));
  std::vector<Kept> result;
  result.reserve(sorted.size());
  for (Ranked& ranked : sorted) result.push_back(std::move(ranked.attempt));
  return result;
}

void KeptAttempts::add(const LoggedAttempt& attempt) {
  const Length run = attempt.end - attempt.start;
  const Length wait = attempt.start - attempt.queued;
  const bool among_first = first_.size() < bounds_.first;
  const bool ran_long = runs_.would_keep(run);
  const bool waited_long = wait > Length{0} && waits_.would_keep(wait);
  const bool has_failed = failed(attempt);
  if (!among_first && !ran_long && !waited_long && !has_failed) return;

  LoggedAttempt copy = attempt;
  std::string error_output = std::exchange(copy.error_output, {});
  const Kept kept = std::make_shared<const LoggedAttempt>(std::move(copy));
  if (among_first) first_.push_back(kept);
  if (ran_long) runs_.add(run, kept);
  if (waited_long) waits_.add(wait, kept);
  if (!has_failed) return;
  if (first_failures_.size() < bounds_.first_failures) {
    first_failures_.push_back({kept, std::move(error_output)});
  } else if (bounds_.last_failures > 0) {
    last_failures_.push_back({kept, std::move(error_output)});
    if (last_failures_.size() > bounds_.last_failures) last_failures_.pop_front();
  }
}

std::vector<KeptAttempts::Kept> KeptAttempts::all() const {
  std::vector<Kept> result;
  std::unordered_set<const LoggedAttempt*> taken;
  const auto take = [&](const Kept& kept) {
    if (taken.insert(kept.get()).second) result.push_back(kept);
  };
  for (const Kept& kept : first_) take(kept);
  for (const Ranked& ranked : runs_.heap()) take(ranked.attempt);
  for (const Ranked& ranked : waits_.heap()) take(ranked.attempt);
  for (const Failure& failure : first_failures_) take(failure.attempt);
  for (const Failure& failure : last_failures_) take(failure.attempt);
  std::sort(result.begin(), result.end(), [](const Kept& a, const Kept& b) {
    if (a->start != b->start) return a->start < b->start;
    if (a->seq != b->seq) return a->seq < b->seq;
    return a->attempt < b->attempt;
  });
  return result;
}

std::vector<KeptAttempts::Kept> KeptAttempts::longest_runs(std::size_t n) const {
  return runs_.top(n);
}

std::vector<KeptAttempts::Kept> KeptAttempts::longest_waits(std::size_t n) const {
  return waits_.top(n);
}

std::vector<KeptAttempts::Failure> KeptAttempts::failures() const {
  std::vector<Failure> result = first_failures_;
  result.insert(result.end(), last_failures_.begin(), last_failures_.end());
  return result;
}

}  // namespace keyway
