#include "keyway/group_executor.h"

#include "groups/group_engine.h"
#include "runtime/time_after.h"

namespace keyway {

namespace detail {

std::optional<RejectionReason> enqueue(const GroupPlace& place, TaskCore& task) {
  return place.engine->enqueue(task, place.hash, place.pinned_lane);
}

std::optional<RejectionReason> try_enqueue(const GroupPlace& place, TaskCore& task) {
  return place.engine->enqueue(task, place.hash, place.pinned_lane, GroupEngine::IfFull::kTurnAway);
}

Result<void> try_enqueue_for(const GroupPlace& place, TaskCore& task, Duration timeout) {
  const TimePoint deadline = deadline_after(task, timeout);
  return place.engine->enqueue_before(task, place.hash, bound_of(&deadline));
}

void set_options(TaskCore& task, const TaskOptions& options) {
  TaskExtras& extras = task.extras();
  extras.conflation = options.conflation;
  extras.cost = static_cast<std::uint32_t>(options.cost);
  extras.priority = options.priority;
  if (!options.start_within) return;
  extras.expires_at = deadline_after(task, *options.start_within);
  extras.expires = extras.expires_at != TimePoint::max();
}

}  // namespace detail

GroupExecutor::GroupExecutor(GroupPolicy policy, ThreadPoolOptions threads)
    : GroupExecutor(std::move(policy), std::make_unique<ThreadPool>(threads)) {}

GroupExecutor::GroupExecutor(GroupPolicy policy, Scheduler& scheduler)
    : engine_(std::make_unique<GroupEngine>(std::move(policy), scheduler, /*shared=*/true)) {}

GroupExecutor::GroupExecutor(GroupPolicy policy, std::unique_ptr<Scheduler> scheduler)
    : engine_(std::make_unique<GroupEngine>(std::move(policy), *scheduler, /*shared=*/false)),
      own_scheduler_(std::move(scheduler)) {}

GroupExecutor::~GroupExecutor() { engine_->close(); }

detail::TaskOwner& GroupExecutor::owner() const { return *engine_; }

void GroupExecutor::end_rates() { engine_->end_rates(); }

detail::GroupPlace GroupExecutor::place_of(std::string_view group_key) const {
  return {engine_.get(), engine_.get(), group_key, detail::require_key(group_key)};
}

GroupHandle GroupExecutor::group(std::string_view group_key) {
  detail::require_key(group_key);
  return GroupHandle(*this, engine_->pin(group_key));
}

Result<void> GroupExecutor::set_limits(std::string_view group_key, const GroupLimits& limits) {
  detail::require_key(group_key);
  return engine_->set_limits(group_key, limits);
}
Result<void> GroupExecutor::set_global_limit(int max_in_flight) {
  return engine_->set_global_limit(max_in_flight);
}
void GroupExecutor::pause_group(std::string_view group_key) {
  detail::require_key(group_key);
  engine_->pause_group(group_key);
}
void GroupExecutor::resume_group(std::string_view group_key) { engine_->resume_group(group_key); }
void GroupExecutor::pause() { engine_->pause(); }
void GroupExecutor::resume() { engine_->resume(); }
bool GroupExecutor::drain_group(std::string_view group_key, Duration timeout) {
  return engine_->drain_group(group_key, timeout);
}
bool GroupExecutor::drain(Duration timeout) { return engine_->drain(timeout); }

void GroupExecutor::shutdown_group(std::string_view group_key) {
  engine_->shutdown_group(group_key);
}
void GroupExecutor::evict_group(std::string_view group_key) { engine_->evict_group(group_key); }
void GroupExecutor::shutdown() { engine_->shutdown(); }
bool GroupExecutor::shutdown(Duration timeout) { return engine_->shutdown(timeout); }

GroupStats GroupExecutor::stats() const { return engine_->stats(); }
GroupStats GroupExecutor::group_stats(std::string_view group_key) const {
  return engine_->group_stats(group_key);
}
std::vector<std::string> GroupExecutor::active_group_keys() const {
  return engine_->active_group_keys();
}
Explanation GroupExecutor::explain(std::string_view group_key) const {
  detail::require_key(group_key);
  return engine_->explain(group_key);
}
Explanation GroupExecutor::explain_task(detail::TaskCore& task) const {
  if (&task.owner() != engine_.get()) {
    throw Exception({ErrorCode::kInvalidArgument,
                     "explain() of " + detail::name_of(task) +
                         ": the handle is of another executor; ask the executor that took it"});
  }
  return engine_->explain(task);
}
std::vector<HotGroup> GroupExecutor::hot_groups(std::size_t count) const {
  return engine_->hot_groups(count);
}
std::optional<HotGroup> GroupExecutor::group_times(std::string_view group_key) const {
  return engine_->group_times(group_key);
}
std::size_t GroupExecutor::waiting_for_room() const { return engine_->waiting_for_room(); }
ThreadPoolStats GroupExecutor::thread_stats() const {
  const auto* pool = dynamic_cast<const ThreadPool*>(own_scheduler_.get());
  return pool == nullptr ? ThreadPoolStats{} : pool->stats();
}

GroupHandle::~GroupHandle() {
  if (lane_ != nullptr) executor_.engine_->unpin(*lane_);
}

std::string_view GroupHandle::key() const {
  if (lane_ == nullptr) [[unlikely]] {
    throw Exception(
        {ErrorCode::kInvalidArgument,
         "this group handle is empty: it was moved from; use the handle it was moved to"});
  }
  return lane_->key();
}

detail::GroupPlace GroupHandle::place_of() const {
  GroupEngine* engine = executor_.engine_.get();
  const std::string_view own_key = key();  // throws if there is no lane
  return {engine, engine, own_key, lane_->hash(), lane_};
}

}  // namespace keyway
