#include "batch/group_watch.h"

namespace keyway::batch {

template <class Change>
void GroupWatch::change(Group& group, TimePoint now, Change what) {
  const bool bound = group.binds();
  const bool waited = group.waiting_ > 0;
  what(group);
  if (bound && !group.binds()) group.bound_ += now - group.binds_since_;
  if (!bound && group.binds()) group.binds_since_ = now;
  if (waited && group.waiting_ == 0) --waiting_groups_;
  if (!waited && group.waiting_ > 0) ++waiting_groups_;
  if (group.waiting_ + group.running_ + group.resting_ == 0) forget(group);
}

GroupWatch::Group& GroupWatch::enter(std::string_view name, TimePoint now) {
  auto found = groups_.find(name);
  if (found == groups_.end()) {
    found = groups_.emplace(std::string(name), Group()).first;
    found->second.name_ = &found->first;
    found->second.limit_ = limit_of_(name);
  }
  Group& group = found->second;
  change(group, now, [](Group& g) { ++g.waiting_; });
  return group;
}

void GroupWatch::start(Group& group, int weight, TimePoint now) {
  change(group, now,
         [weight](Group& g) { --g.waiting_, g.running_ += static_cast<unsigned>(weight); });
}

void GroupWatch::rest(Group& group, int weight, TimePoint now) {
  change(group, now,
         [weight](Group& g) { g.running_ -= static_cast<unsigned>(weight), ++g.resting_; });
}

void GroupWatch::again(Group& group, TimePoint now) {
  change(group, now, [](Group& g) { --g.resting_, ++g.waiting_; });
}

void GroupWatch::end(Group& group, int weight, TimePoint now) {
  change(group, now,
         [weight](Group& g) { g.running_ -= static_cast<unsigned>(weight), ++g.ended_; });
}

void GroupWatch::give_up(Group& group, TimePoint now, bool rested) {
  change(group, now, [rested](Group& g) { rested ? --g.resting_ : --g.waiting_; });
}

void GroupWatch::keep_time(Group& group) {
  using std::chrono::microseconds;
  const auto time = std::chrono::duration_cast<microseconds>(group.bound_).count();
  if (time <= 0) return;
  const HotKeys::Place place = bound_.add(group.name(), static_cast<std::uint64_t>(time));
  if (place.is_new) ended_[place.slot] = 0;
  ended_[place.slot] += group.ended_;
  group.bound_ = Duration::zero();
  group.ended_ = 0;
}

void GroupWatch::forget(Group& group) {
  keep_time(group);
  groups_.erase(groups_.find(group.name()));
}

std::optional<GroupWatch::Bound> GroupWatch::longest_bound(TimePoint now) {
  for (auto& [name, group] : groups_) {
    if (!group.binds()) continue;
    group.bound_ += now - group.binds_since_;
    group.binds_since_ = now;
    keep_time(group);
  }
  const std::vector<HotKeys::Entry> top = bound_.top(1);
  if (top.empty()) return std::nullopt;
  return Bound{.group = top[0].key,
               .jobs = ended_[top[0].slot],
               .time = std::chrono::microseconds(top[0].count - top[0].error)};
}

}  // namespace keyway::batch
