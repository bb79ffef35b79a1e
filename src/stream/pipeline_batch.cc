#include "stream/pipeline_batch.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <set>
#include <stop_token>

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

Pipeline::Engine::BatchMember::~BatchMember() {
  if (has_timer_) line_.engine_.scheduler_.cancel_timer(*this);
}

void Pipeline::Engine::BatchMember::set_timer() {
  Engine& engine = line_.engine_;
  has_timer_ = true;
  engine.scheduler_.add_timer(*this, engine.from_now(engine.options_.batch.linger));
}

void Pipeline::Engine::BatchMember::fire() { line_.linger_is_over(*this); }

// Another thread may resume the member as soon as it is in the line, and the run may end then. So after that this uses the line
// only if it has taken members out of it, whose tasks cannot end before they are sent or resumed.
void Pipeline::Engine::BatchLine::add(BatchMember& member) {
  const auto most = static_cast<std::size_t>(engine_.options_.batch.most);
  Members batch;
  bool needs_timer = false;
  bool is_dropped = false;
  do {
    if (needs_timer) member.set_timer();  // under no lock, so others may join or be sent meanwhile
    MutexLock lock(mutex_);
    is_dropped = member.partition.is_dropped();
    needs_timer = !is_dropped && waiting_.empty() && most > 1 && !member.has_timer();
    if (is_dropped || needs_timer) continue;
    waiting_.push_back(&member);
    if (waiting_.size() >= most || waiting_.front()->is_overdue) {
      batch = std::exchange(waiting_, {});
    }
  } while (needs_timer);
  if (is_dropped) return member.resume();
  if (!batch.empty()) send(std::move(batch));
}

// The member is in its task until this has returned.
void Pipeline::Engine::BatchLine::linger_is_over(BatchMember& member) {
  Members batch;
  {
    MutexLock lock(mutex_);
    member.is_overdue = true;
    if (waiting_.empty() || waiting_.front() != &member) return;
    batch = std::exchange(waiting_, {});
  }
  send(std::move(batch));
}

void Pipeline::Engine::BatchLine::let_dropped_go() {
  Members dropped;
  Members batch;
  {
    MutexLock lock(mutex_);
    const auto is_dropped = [](BatchMember* member) { return member->partition.is_dropped(); };
    std::ranges::copy_if(waiting_, std::back_inserter(dropped), is_dropped);
    if (dropped.empty()) return;
    std::erase_if(waiting_, is_dropped);
    batch = std::exchange(waiting_, {});  // the timer may have been that of a dropped one
  }
  for (BatchMember* member : dropped) member->resume();
  if (!batch.empty()) send(std::move(batch));
}

void Pipeline::Engine::BatchLine::send(Members members) {
  auto task = [&engine = engine_, moved = std::move(members)] { return engine.run_batch(moved); };
  const Result<void> posted = engine_.calls_->post(kUnorderedGroup, std::move(task));
  KEYWAY_CHECK(posted.ok(), "a batch finds its executor closed");
}

Task<void> Pipeline::Engine::run_batch(std::vector<BatchMember*> members) {
  std::vector<Batch::Member> seen;
  std::vector<BatchMember*> wanted;
  for (BatchMember* member : members) {
    if (member->partition.is_dropped() || halts_) continue;
    seen.push_back(member->seen);
    wanted.push_back(member);
  }
  if (!seen.empty()) {
    std::vector<Outcome> outcomes = co_await call_batch(seen);
    for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i]->outcome = std::move(outcomes[i]);
  }
  for (BatchMember* member : members) member->resume();
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

// Its token is stopped when any of the partitions of a batch is dropped.
class Pipeline::Engine::AnyDropped {
 public:
  explicit AnyDropped(std::list<Tried>& batch) {
    std::set<const Partition*> seen;
    for (Tried& one : batch) {
      const Partition& partition = one.item.partition();
      if (!seen.insert(&partition).second) continue;
      on_drop_.emplace_back(partition.drop.get_token(), Stop{any_});
    }
  }
  std::stop_token token() const { return any_.get_token(); }

 private:
  struct Stop {
    std::stop_source any;
    void operator()() const {
      std::stop_source source = any;  // what it resumes may destroy this callback
      source.request_stop();
    }
  };
  std::stop_source any_;
  std::list<std::stop_callback<Stop>> on_drop_;
};

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

// A batch may have records of several partitions. Records whose partition is dropped leave at once, the others go on waiting.
Task<void> Pipeline::Engine::rest_together(std::list<Tried>* batch, Duration duration) {
  const TimePoint until = from_now(duration);
  do {
    {
      const AnyDropped any_dropped(*batch);
      co_await rest(any_dropped.token(), until - scheduler_.now());
    }
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
