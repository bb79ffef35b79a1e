#include "stream/pipeline_batch.h"

#include <algorithm>
#include <exception>

#include "base/hash_key.h"

namespace keyway {

using std::chrono::system_clock;

bool Pipeline::Engine::takes_distinct_keys() const {
  return handler_.batch && options_.batch.of == BatchOptions::kDistinctKeys;
}
bool Pipeline::Engine::takes_one_key() const {
  return handler_.batch && options_.batch.of == BatchOptions::kOneKey;
}

// ---- distinct keys

void Pipeline::Engine::BatchLine::add(BatchMember& member) {
  const BatchOptions& options = engine_.options_.batch;
  TimePoint due = engine_.from_now(options.linger);
  bool sets_timer = false;
  std::vector<BatchMember*> full;
  {
    MutexLock lock(mutex_);
    waiting_.push_back(&member);
    if (waiting_.size() == 1) due_ = due;
    if (waiting_.size() >= static_cast<std::size_t>(options.most)) {
      full = std::exchange(waiting_, {});
    } else {
      sets_timer = !std::exchange(timer_is_set_, true);
      due = due_;
    }
  }
  // The member may have gone on by now. The line is there as long as this turn of its executor.
  if (sets_timer) engine_.scheduler_.add_timer(*this, due);
  if (!full.empty()) send(std::move(full));
}

void Pipeline::Engine::BatchLine::fire() {
  const TimePoint now = engine_.scheduler_.now();
  std::optional<TimePoint> later;
  std::vector<BatchMember*> due;
  {
    MutexLock lock(mutex_);
    timer_is_set_ = !waiting_.empty() && now < due_;
    if (timer_is_set_) {
      later = due_;
    } else {
      due = std::exchange(waiting_, {});
    }
  }
  if (later) return engine_.scheduler_.add_timer(*this, *later);
  if (!due.empty()) send(std::move(due));
}

void Pipeline::Engine::BatchLine::send(std::vector<BatchMember*> members) {
  auto task = [&engine = engine_, moved = std::move(members)] { return engine.run_batch(moved); };
  const Result<void> posted = engine_.calls_->post(kUnorderedGroup, std::move(task));
  KEYWAY_CHECK(posted.ok(), "a batch finds its executor closed");
}

Task<void> Pipeline::Engine::run_batch(std::vector<BatchMember*> members) {
  std::vector<Batch::Member> seen;
  std::vector<BatchMember*> wanted;
  for (BatchMember* member : members) {
    if (member->partition->is_dropped() || halts_) continue;
    seen.push_back(member->seen);
    wanted.push_back(member);
  }
  if (!seen.empty()) {
    std::vector<Outcome> outcomes = co_await call_batch(seen);
    for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i]->outcome = std::move(outcomes[i]);
  }
  for (BatchMember* member : members) {
    member->resumption.post(member->coroutine, *member->context);  // it may end at once
  }
}

// As many outcomes as there are members, whatever the handler does.
Task<std::vector<Outcome>> Pipeline::Engine::call_batch(std::span<const Batch::Member> members) {
  const Batch batch(members);
  std::vector<Outcome> outcomes;
  std::exception_ptr thrown;
  {
    const Measured measured(*this, members.front().attempt.queued);
    try {
      outcomes = co_await handler_.batch(batch);
    } catch (...) {
      thrown = std::current_exception();
    }
  }
  if (thrown) outcomes.assign(members.size(), outcome_of(thrown));
  if (outcomes.size() > members.size()) {  // nobody knows which of them belong to which records
    outcomes.assign(members.size(),
                    retry("the handler gave " + std::to_string(outcomes.size()) + " outcomes for " +
                          std::to_string(members.size()) + " records"));
  }
  outcomes.resize(members.size(), retry("the handler gave no outcome for it"));
  co_return outcomes;
}

// ---- one key

void Pipeline::Engine::KeyBacklog::add(const std::string& group, Item item) {
  MutexLock lock(mutex_);
  items_[group].push_back(std::move(item));
}

std::optional<Pipeline::Engine::Item> Pipeline::Engine::KeyBacklog::take_back(
    const std::string& group) {
  MutexLock lock(mutex_);
  const auto found = items_.find(group);
  if (found == items_.end()) return {};
  std::optional<Item> item(std::move(found->second.back()));
  found->second.pop_back();
  if (found->second.empty()) items_.erase(found);
  return item;
}

std::deque<Pipeline::Engine::Item> Pipeline::Engine::KeyBacklog::take(const std::string& group,
                                                                      std::size_t most) {
  std::deque<Item> taken;
  MutexLock lock(mutex_);
  const auto found = items_.find(group);
  if (found == items_.end()) return taken;
  std::deque<Item>& items = found->second;
  for (; taken.size() < most && !items.empty(); items.pop_front()) {
    taken.push_back(std::move(items.front()));
  }
  if (items.empty()) items_.erase(found);
  return taken;
}

Task<Pipeline::Engine::TaskEnd> Pipeline::Engine::visit(std::string group) {
  const std::size_t key = hash_key(group);
  try {
    co_await visit_backlog(std::move(group));
  } catch (...) {
    fail_by(std::current_exception());
  }
  co_return TaskEnd(*this, key);
}

Task<void> Pipeline::Engine::visit_backlog(std::string group) {
  std::list<Tried> batch;
  bool settled = false;
  for (Item& item : backlog_->take(group, static_cast<std::size_t>(options_.batch.most))) {
    if (item.partition().is_dropped()) continue;
    if (settled_untried(item)) {
      settled = true;
      continue;
    }
    const TimePoint since = item.since();
    batch.push_back({std::move(item), {.first = system_clock::now()}, since});
  }
  if (settled) wake();
  while (!batch.empty()) {
    if (options_.rate) co_await rest_together(&batch, until_rate_allows());
    std::erase_if(batch, is_dropped);
    if (batch.empty() || halts_) break;
    std::vector<Batch::Member> seen;
    for (Tried& one : batch) {
      seen.push_back({&one.item.record(), begin_try(one.tries, one.queued)});
    }
    const std::vector<Outcome> outcomes = co_await call_batch(seen);
    settle_or_keep(batch, outcomes);
    if (batch.empty()) break;
    wake();  // the settled records have made room, and this task has not ended
    Duration wait{};
    for (const Tried& one : batch) wait = std::max(wait, one.tries.wait);
    co_await rest_together(&batch, wait);
    for (Tried& one : batch) {
      if (one.item.entry() != nullptr) one.item.entry()->set_retrying(false);
      one.queued = handling_.now();
    }
  }
}

// Records without a key may be of several partitions. A rest ends when its partition is dropped: then the others go on.
Task<void> Pipeline::Engine::rest_together(std::list<Tried>* batch, Duration duration) {
  const TimePoint until = from_now(duration);
  do {
    co_await rest(&batch->front().item.partition(), until - scheduler_.now());
    std::erase_if(*batch, is_dropped);
  } while (!batch->empty() && scheduler_.now() < until);
}

bool Pipeline::Engine::is_dropped(Tried& one) { return one.item.partition().is_dropped(); }

// Whoever is to be tried again stays.
void Pipeline::Engine::settle_or_keep(std::list<Tried>& batch,
                                      const std::vector<Outcome>& outcomes) {
  std::size_t i = 0;
  std::erase_if(batch, [&](Tried& one) {
    return judge(one.item, one.tries, outcomes[i++]) == Judged::kOver;
  });
}

}  // namespace keyway
