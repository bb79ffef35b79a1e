// Why a group or a task is where it is.
#include <algorithm>
#include <ostream>

#include "base/human_text.h"
#include "base/quoted.h"
#include "groups/group_engine.h"
#include "runtime/wait_graph.h"

namespace keyway {

using detail::TaskCore;

namespace {

constexpr std::size_t kMostHolders = 5;

std::string count_of(std::uint64_t running, std::uint64_t limit) {
  std::string text = std::to_string(running);
  if (limit < kNoLimit && limit > 0) text += " of " + std::to_string(limit);
  return text + " running";
}

// Empty if there is nothing to say of it: work for a key has no other name than the key.
std::string name_of(const Explanation::Holder& holder, const Explanation& why) {
  std::string name;
  switch (why.explained) {
    case Explained::kGroup:
      name = holder.task_id.empty() ? "a task without id" : escaped(holder.task_id);
      if (holder.group_key != why.group_key) name = escaped(holder.group_key) + "/" + name;
      break;
    case Explained::kWorker:
      name = "work for key " + quoted(holder.task_id);
      break;
    case Explained::kKey:
      if (holder.group_key != why.group_key) name = "work for key " + quoted(holder.group_key);
      break;
    case Explained::kRecords:
      if (holder.group_key != why.group_key) name = "a record of key " + quoted(holder.group_key);
      break;
    case Explained::kRecordGroup:
      if (holder.group_key != why.group_key) name = "a record of group " + quoted(holder.group_key);
      break;
  }
  if (!holder.waits_for.empty()) {
    name += (name.empty() ? "it waits for " : ", which waits for ") + holder.waits_for;
  }
  return name;
}

// What must end before the next one goes on.
const char* one_of_its_own(Explained explained) {
  switch (explained) {
    case Explained::kGroup:
      return "one of the group";
    case Explained::kKey:
      return "the work for the key";
    case Explained::kWorker:
      return "the work of the worker";
    case Explained::kRecords:
      return "a record of the key";
    case Explained::kRecordGroup:
      return "a record of the group";
  }
  return "one";
}

const char* one_of_any(Explained explained) {
  switch (explained) {
    case Explained::kGroup:
      return "a task of any group";
    case Explained::kKey:
    case Explained::kWorker:
      return "work for any key";
    case Explained::kRecords:
    case Explained::kRecordGroup:
      return "a record of any key";
  }
  return "one";
}

// What would let it go on.
std::string remedy(const Explanation& why) {
  const auto or_with = [&](const char* call) {
    return why.limits_are_fixed ? std::string() : std::string(", or with ") + call;
  };
  switch (why.held_back_by) {
    case HeldBackBy::kNothing:
      return {};
    case HeldBackBy::kGroupLimit:
      return std::string("; goes on when ") + one_of_its_own(why.explained) + " ends" +
             or_with("set_limit()");
    case HeldBackBy::kGlobalLimit:
      return "; the global limit is reached, " + count_of(why.global_running, why.global_limit) +
             "; goes on when " + one_of_any(why.explained) + " ends" +
             or_with("set_global_limit()");
    case HeldBackBy::kPause:
      return why.explained == Explained::kRecords ? "; paused, goes on with resume_key()"
                                                  : "; paused, goes on with resume_group()";
    case HeldBackBy::kPauseOfAll:
      return std::string("; all ") + (why.explained == Explained::kRecords ? "records" : "groups") +
             " are paused, goes on with resume()";
    case HeldBackBy::kRate:
      return "; too many have started lately, goes on in " +
             human_duration(why.tokens_in.value_or(Duration::zero()));
    case HeldBackBy::kFullQueue:
      return "; the queue is full, gets in when a task of the group ends or leaves";
    case HeldBackBy::kOtherTask:
      return "; waits for " + why.waits_for;
  }
  return {};
}

}  // namespace

const char* to_string(HeldBackBy by) {
  switch (by) {
    case HeldBackBy::kNothing:
      return "nothing";
    case HeldBackBy::kGroupLimit:
      return "group_limit";
    case HeldBackBy::kGlobalLimit:
      return "global_limit";
    case HeldBackBy::kPause:
      return "pause";
    case HeldBackBy::kPauseOfAll:
      return "pause_of_all";
    case HeldBackBy::kRate:
      return "rate";
    case HeldBackBy::kFullQueue:
      return "full_queue";
    case HeldBackBy::kOtherTask:
      return "other_task";
  }
  return "unknown";
}

std::string Explanation::text() const {
  std::string text;
  if (task_id) {
    text = detail::name_of_task(group_key, *task_id) + ": " + task_state;
    if (position) text += ", place " + std::to_string(*position) + " of " + std::to_string(waiting);
    if (runs_for) text += " for " + human_duration(*runs_for);
    if (task_state != "waits") return text + remedy(*this);
    text += "; ";
  }
  text += count_of(running, limit);
  if (!holders.empty()) {
    text += "; oldest " + human_duration(holders.front().runs_for);
    if (const std::string name = name_of(holders.front(), *this); !name.empty()) {
      text += " (" + name + ")";
    }
  }
  text += "; " + std::to_string(waiting) + " waiting";
  return text + remedy(*this);
}

std::ostream& operator<<(std::ostream& out, const Explanation& explanation) {
  return out << explanation.text();
}

Explanation GroupEngine::explain(std::string_view key) {
  Explanation why;
  why.group_key = key;
  if (Lane* lane = table_.pin_existing(key, LaneTable::hash(key))) {
    explain_lane(*lane, nullptr, why);
    table_.unpin(*lane);
  } else {
    why.limit = limits_.resolve(key).running;
  }
  find_holders(why);
  return why;
}

Explanation GroupEngine::explain(TaskCore& task) {
  Explanation why;
  why.group_key = task.group_key();
  why.task_id = task.task_id();
  if (task.done()) {
    why.task_state = to_string(task.status());
    return why;
  }
  bool waits = task.awaits_room();
  if (Lane* lane = table_.pin_existing(why.group_key, LaneTable::hash(why.group_key))) {
    explain_lane(*lane, &task.waiter(), why);
    waits = waits || why.position.has_value() || lane->needed_for(task.waiter()) > 0;
    table_.unpin(*lane);
  }
  if (waits) {
    why.task_state = "waits";
    if (task.awaits_room()) why.held_back_by = HeldBackBy::kFullQueue;
    find_holders(why);
    return why;
  }
  why.held_back_by = HeldBackBy::kNothing;
  if (task.has_extras() && task.extras().follows.load(std::memory_order_relaxed)) {
    why.task_state = "ends with another task of the same id";
    return why;
  }
  why.task_state = "runs";
  if (const auto started = findable_.started(task)) why.runs_for = scheduler_.now() - *started;
  why.waits_for = WaitGraph::instance().waits_for(task);
  if (!why.waits_for.empty()) why.held_back_by = HeldBackBy::kOtherTask;
  return why;
}

void GroupEngine::explain_lane(Lane& lane, const Waiter* waiter, Explanation& why) {
  const Lane::View view = lane.view(waiter);
  why.running = view.counts.running;
  why.limit = view.limits.running;
  why.waiting = view.counts.waiting;
  if (view.position > 0) why.position = view.position;
  if (dispatch_.has_gate()) {
    const GlobalGate::Use use = dispatch_.gate_use();
    why.global_running = use.in_flight;
    why.global_limit = use.limit;
  }
  if (why.waiting == 0) return;
  if (view.paused) {
    why.held_back_by = HeldBackBy::kPause;
  } else if (dispatch_.paused()) {
    why.held_back_by = HeldBackBy::kPauseOfAll;
  } else if (view.full) {
    why.held_back_by = HeldBackBy::kGroupLimit;
  } else if (const auto tokens_in = has_states_ ? dispatch_.tokens_come_in(lane) : std::nullopt) {
    why.held_back_by = HeldBackBy::kRate;
    why.tokens_in = tokens_in;
  } else if (dispatch_.has_gate() && why.global_running >= why.global_limit) {
    why.held_back_by = HeldBackBy::kGlobalLimit;
  }
}

// Finds the running tasks of the group; of all groups, if the global limit holds it back.
void GroupEngine::find_holders(Explanation& why) {
  const TimePoint now = scheduler_.now();
  std::optional<std::string_view> key = why.group_key;
  if (why.held_back_by == HeldBackBy::kGlobalLimit) key.reset();
  std::vector<std::pair<Explanation::Holder, const TaskCore*>> found;
  findable_.for_each(key, [&](const TaskCore& task) {
    found.push_back({{.group_key = std::string(task.group_key()),
                      .task_id = std::string(task.task_id()),
                      .runs_for = now - task.started()},
                     &task});
  });
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.first.runs_for > b.first.runs_for; });
  if (found.size() > kMostHolders) found.resize(kMostHolders);
  for (auto& [holder, task] :
       found) {  // the task may be gone by now: the graph only compares the pointer
    holder.waits_for = WaitGraph::instance().waits_for(*task);
    why.holders.push_back(std::move(holder));
  }
}

std::vector<HotGroup> GroupEngine::hot_groups(std::size_t count) {
  return observer_ == nullptr ? std::vector<HotGroup>{} : observer_->top(count);
}
std::optional<HotGroup> GroupEngine::group_times(std::string_view key) {
  return observer_ == nullptr ? std::nullopt : observer_->of(key, LaneTable::hash(key));
}

}  // namespace keyway
