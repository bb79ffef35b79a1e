// What the groups of a run do: how many have jobs that wait, and which one kept the run from being
// shorter.
//
// A group binds while it is at its limit and has a job that waits. The group that did so for the
// longest time is the one whose limit to raise, or whose jobs to speed up.
//
// Memory: some hundred bytes for each group that has jobs now, and for 256 that had. If more than
// 256 groups come and go, the times of those that bound least are lost; see HotKeys.
//
// Thread safety: one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/hash_key.h"
#include "base/hot_keys.h"
#include "keyway/scheduler.h"

namespace keyway::batch {

class GroupWatch {
 public:
  // A group that has a job. Each job is in one of three places, and tells when it goes to another.
  class Group {
   public:
    const std::string& name() const { return *name_; }

   private:
    friend class GroupWatch;
    bool binds() const { return waiting_ > 0 && running_ >= static_cast<std::uint64_t>(limit_); }

    const std::string* name_ = nullptr;
    int limit_ = 1;
    std::uint64_t waiting_ = 0;
    std::uint64_t running_ = 0;  // the sum of their weights
    std::uint64_t resting_ = 0;  // until they are tried again
    std::uint64_t ended_ = 0;
    TimePoint binds_since_{};
    Duration bound_{0};
  };

  explicit GroupWatch(std::function<int(std::string_view)> limit_of)
      : limit_of_(std::move(limit_of)) {}

  // A job waits. The group is there until its last job has left.
  Group& enter(std::string_view name, TimePoint now);
  void start(Group& group, int weight, TimePoint now);
  void rest(Group& group, int weight, TimePoint now);      // it ran, and will be tried again
  void again(Group& group, TimePoint now);                 // it has rested, and waits
  void end(Group& group, int weight, TimePoint now);       // it ran, and is done with
  void give_up(Group& group, TimePoint now, bool rested);  // it waited, or rested, and will not run

  std::uint64_t waiting_groups() const { return waiting_groups_; }

  struct Bound {
    std::string group;
    std::uint64_t jobs = 0;  // that ended while it had others
    Duration time{0};
  };
  std::optional<Bound> longest_bound(TimePoint now);

 private:
  template <class Change>
  void change(Group& group, TimePoint now, Change what);
  void forget(Group& group);
  void keep_time(Group& group);

  struct NameHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view name) const { return hash_key(name); }
  };

  const std::function<int(std::string_view)> limit_of_;
  std::unordered_map<std::string, Group, NameHash, std::equal_to<>> groups_;
  std::uint64_t waiting_groups_ = 0;
  static constexpr std::size_t kKept = 256;
  HotKeys bound_{kKept};                                                  // in microseconds
  std::vector<std::uint64_t> ended_ = std::vector<std::uint64_t>(kKept);  // by slot of `bound_`
};

}  // namespace keyway::batch
