// The state of one key: who runs, who waits, how many may run. Every face of Keyway is made of it:
// a group is a lane with limit N, a serial queue or a lock is a lane with limit 1.
//
// A lane never runs anything and never waits. It hands out *the turn*: a token, of which at most
// one exists per lane, that says "somebody should come and take from this lane". Whoever puts the
// first waiter in must post the turn to a scheduler; the scheduler gives it to a worker, which
// takes a waiter and passes the turn on if there is more to take.
//
// Where the turn is:
//   none      nobody waits, and there is room
//   posted    in the ready queue, or wherever the owner keeps it: somebody will come
//   stalled   the limit is reached: the next one who finishes takes it up, if anybody waits then
// So a lane with a waiter always has its turn on the way, or a runner that will take it up: no
// wake-up is lost. And nobody is sent to a lane that is full: who enters there posts nothing.
//
// Guarantees:
//   (1) Never more than limit() permits are out.
//   (2) Waiters are taken in the order they entered; of different priority, the higher first.
//   (3) A waiter may leave from anywhere in the queue, at once.
//   (4) A waiter that costs several permits gets them together, or all that the limit allows if that
//       is less, and nobody behind it overtakes it meanwhile.
//
// Thread safety: every method from any thread. Two locks keep those who enter out of the way of
// those who take: one cache line each. Lock order: the table's shard, dispatch_, intake_.
// Lifetime: see LaneTable.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string_view>

#include "base/spin_lock.h"
#include "keyway/detail/atomic.h"
#include "keyway/scheduler.h"
#include "lanes/waiter_list.h"

namespace keyway {

class Lane;

inline constexpr std::uint32_t kNoLimit = std::numeric_limits<std::uint32_t>::max();

struct LaneLimits {
  std::uint32_t running = 1;         // how many may run at once
  std::uint32_t waiting = kNoLimit;  // how many more the lane itself may hold back
  std::uint64_t version = 0;         // of the owner's limits: see Lane::set_limits()
};

// Which of a lane's limits to set. Those of kRunning alone have no version: the extension sets them one after the other.
enum class LimitPart : std::uint8_t { kBoth, kRunning, kWaiting };

// What becomes of a permit that is given back.
enum class LaneOutcome : std::uint8_t { kSucceeded, kFailed, kCancelled };

struct LaneCounts {
  std::uint64_t entered = 0;
  std::uint64_t refused = 0;  // found it full, and did not come again; only count_outside() knows
  std::uint64_t drained = 0;  // left with drain()
  std::uint64_t succeeded = 0;
  std::uint64_t failed = 0;
  std::uint64_t cancelled = 0;  // while they waited or while they ran
  std::uint64_t expired = 0;    // while they waited
  std::uint64_t running = 0;
  std::uint64_t waiting = 0;

  // Unsigned, so that a difference may be added too.
  LaneCounts& operator+=(const LaneCounts& other);
};

// What a waiter asks for.
struct LaneRank {
  std::uint32_t cost = 1;  // at least 1
  int priority = 0;        // higher first
  bool plain() const { return cost == 1 && priority == 0; }
  bool operator==(const LaneRank&) const = default;
};

// What an owner keeps with a lane, for as long as there is one.
class LaneExtension {
 public:
  virtual ~LaneExtension() = default;
  // Whether the lane must stay although nobody is inside. Asked under the lock of its shard.
  virtual bool is_needed() const { return false; }
  // Which of the lane's limits follow the policy. The extension itself sets the others.
  virtual LimitPart limits_of_policy() const { return LimitPart::kBoth; }
};

// Who owns the lanes of a table: it is given each lane's turn by the scheduler.
class LaneOwner {
 public:
  virtual void run_turn(Lane& lane, Turn& turn) = 0;
  // Asked only in lanes that somebody entered by enter_ranked(); under the lane's locks.
  virtual LaneRank rank_of(const Waiter&) const { return {}; }
  // Whether the limits are the newest of the key with this hash: a lane is made with no others. Asked under the lock of its
  // shard.
  virtual bool are_current(const LaneLimits&, std::size_t /*hash*/) const { return true; }
  // For a lane that is being made; under the lock of its shard.
  virtual std::unique_ptr<LaneExtension> extend(Lane&) { return nullptr; }

 protected:
  ~LaneOwner() = default;
};

// What one who comes with the turn finds.
struct LaneTake {
  Waiter* waiter = nullptr;    // holds a permit now; null: nothing to do
  std::uint64_t number = 0;    // of the waiter: how many have got a permit, with it
  std::uint32_t units = 1;     // how many permits it has, if its cost is above 1
  bool stood_in_line = false;  // it was there already when another one was taken
  bool post_turn = false;      // the caller must post the lane's turn
  bool idle = false;           // nobody runs or waits: the lane may be freed
};

class alignas(64) Lane final : public Runnable {
 public:
  Lane(LaneOwner& owner, std::string_view key, std::size_t hash, LaneLimits limits);
  ~Lane();

  std::string_view key() const { return {key_, key_size_}; }
  std::size_t hash() const { return hash_; }

  void run(Turn& turn) override { owner_.run_turn(*this, turn); }

  enum class Entered { kNeedsTurn, kTurnIsOnItsWay, kFull, kClosed };

  // Puts a waiter at the end of the queue. With kNeedsTurn the caller must post the turn.
  // kFull: the lane holds back as many as it may; kClosed: close() was called. In both cases the
  // waiter was not taken in.
  Entered enter(Waiter& waiter) KEYWAY_EXCLUDES(intake_, dispatch_) {
    {
      SpinGuard intake(intake_);
      if (!careful_) [[likely]]
        return push(waiter);
      if (sure_room_ > 0) [[likely]] {
        --sure_room_;
        return push(waiter);
      }
    }
    return enter_carefully(waiter, /*ranked=*/false);
  }
  // For one whose rank is not plain. From now on, until the lane is empty, the owner is asked for ranks.
  Entered enter_ranked(Waiter& waiter) KEYWAY_EXCLUDES(intake_, dispatch_) {
    return enter_carefully(waiter, /*ranked=*/true);
  }

  // REQUIRES: the caller has the turn.
  LaneTake take() KEYWAY_EXCLUDES(intake_, dispatch_);

  // For one who has finished: gives the permits back and, if `go_on`, takes again at once for the
  // next waiter.
  LaneTake finish(LaneOutcome outcome, bool go_on, std::uint32_t units = 1)
      KEYWAY_EXCLUDES(intake_, dispatch_);

  // A waiter leaves, if it still stands in this lane's queue, and is counted as cancelled or expired.
  struct Withdrawn {
    bool withdrawn = false;
    bool post_turn = false;
    explicit operator bool() const { return withdrawn; }
  };
  Withdrawn withdraw(Waiter& waiter, bool expired = false) KEYWAY_EXCLUDES(intake_, dispatch_);

  // If `old` stands in the queue, withdraws it and enters `newcomer`, even if the queue is full: in
  // the place of `old` if both have the same rank, otherwise by its own rank.
  Withdrawn replace(Waiter& old, Waiter& newcomer) KEYWAY_EXCLUDES(intake_, dispatch_);

  // All waiters leave, but for those who `stay`. Gives them as a chain by `next`, first in first.
  // Those who have a permit by now are asked to stop: see stop_wanted().
  Waiter* drain(bool (*stays)(Waiter&) = [](Waiter&) { return false; })
      KEYWAY_EXCLUDES(intake_, dispatch_);

  // Whether drain() was called after the waiter of this number got its permit.
  bool stop_wanted(std::uint64_t number) const KEYWAY_EXCLUDES(dispatch_) {
    SpinGuard dispatch(dispatch_);
    return rare_ != nullptr && number <= rare_->stop_up_to;
  }

  // Gives back the permits of a task that waits. It does not count as an end: the task returns by
  // enter_again(), and the lane is not freed before. True if the caller must post the turn.
  bool give_back(std::uint32_t units = 1) KEYWAY_EXCLUDES(intake_, dispatch_);
  // Puts the waiter in front of all tasks that have not begun, behind those that returned before it.
  Entered enter_again(Waiter& waiter) KEYWAY_EXCLUDES(intake_, dispatch_);

  // Nobody gets in any more.
  void close() KEYWAY_EXCLUDES(intake_) {
    SpinGuard intake(intake_);
    closed_ = true;
  }

  // Takes effect at once. Limits of an older version than those that were set before are ignored, so threads that set limits
  // may arrive in any order. REQUIRES: whoever sets limits found the lane before it looked the limits up.
  struct Changed {
    bool post_turn = false;  // the caller must post the turn
    bool lowered = false;    // fewer may run than before
  };
  Changed set_limits(LaneLimits limits, LimitPart part = LimitPart::kBoth)
      KEYWAY_EXCLUDES(intake_, dispatch_);
  // While it is paused nobody new is taken; who has begun goes on. True if the caller must post the turn.
  bool set_paused(bool paused) KEYWAY_EXCLUDES(intake_, dispatch_);
  LaneLimits limits() const KEYWAY_EXCLUDES(intake_, dispatch_);
  LaneCounts counts() const KEYWAY_EXCLUDES(intake_, dispatch_);
  // Whether no task runs, waits or will return here: see give_back().
  bool empty() const KEYWAY_EXCLUDES(intake_, dispatch_);
  // The same; also adds the number of tasks that have ever entered here to `entered`.
  bool empty(std::uint64_t& entered) const KEYWAY_EXCLUDES(intake_, dispatch_);
  // The same, and no worker has the turn: the lane may be freed.
  bool idle() const KEYWAY_EXCLUDES(intake_, dispatch_);
  // If it is idle: adds up what it has counted, and says true.
  bool retire(LaneCounts& sum) const KEYWAY_EXCLUDES(intake_, dispatch_);
  // What happened to tasks of this key outside of the lane.
  void count_outside(const LaneCounts& counts) KEYWAY_EXCLUDES(dispatch_) {
    SpinGuard dispatch(dispatch_);
    rare().outside += counts;
  }
  // Whether a waiter that came by enter_again() is in the queue.
  bool somebody_returns() const KEYWAY_EXCLUDES(dispatch_) {
    SpinGuard dispatch(dispatch_);
    return rare_ != nullptr && rare_->returners > 0;
  }
  // What somebody sees who asks why things stand still.
  struct View {
    LaneCounts counts;
    LaneLimits limits;
    bool paused = false;
    bool full = false;           // the next one who waits must wait for one who runs
    std::uint64_t position = 0;  // of the waiter that was asked for, from 1; 0: not found
  };
  // Counts no further than kFurthest.
  static constexpr std::uint64_t kFurthest = 10'000;
  View view(const Waiter* waiter) const KEYWAY_EXCLUDES(intake_, dispatch_);
  // What `look` says of the next in line; nothing if nobody waits.
  template <class Look>
  std::optional<std::int64_t> of_next(Look look) const KEYWAY_EXCLUDES(intake_, dispatch_) {
    SpinGuard dispatch(dispatch_);
    SpinGuard intake(intake_);
    const Waiter* next = first_in_line();
    if (next == nullptr) return std::nullopt;
    return look(*next);
  }
  // How many would run if nothing but this lane's limit held them back, and its pause those who have not begun.
  std::uint64_t could_run() const KEYWAY_EXCLUDES(intake_, dispatch_);
  // How many permits must be free for `waiter` to be sure of its turn, if it stands in the queue, or
  // `outside` and is to enter: as many as it, or anybody else who waits, may cost. Otherwise 0.
  std::uint32_t needed_for(const Waiter& waiter, bool outside = false) const
      KEYWAY_EXCLUDES(intake_, dispatch_);
  // The number of permits that must be free for a task that gave `units` back, or will, to be sure of
  // its return: as many as it costs, or as the costliest waiter that returned before it.
  std::uint32_t needed_to_return(std::uint32_t units) const KEYWAY_EXCLUDES(intake_, dispatch_);

  // Whether a task has entered since the last call that raised needed_for() or needed_to_return() of
  // other tasks above the free permits. Then waiting tasks of the lane may have to give permits back.
  bool take_need_grew() KEYWAY_EXCLUDES(intake_, dispatch_);

  // Whether a permit of the layer above is already set aside for the next take. Belongs to
  // whoever has the turn.
  bool has_global_permit = false;

  LaneExtension* extension() const { return extension_.get(); }
  LimitPart limits_of_policy() const {
    return extension_ != nullptr ? extension_->limits_of_policy() : LimitPart::kBoth;
  }

 private:
  friend class LaneTable;

  Entered push(Waiter& waiter) KEYWAY_REQUIRES(intake_) {
    if (closed_) [[unlikely]]
      return Entered::kClosed;
    inbox_.push_back(waiter);
    ++entered_;
    if (turn_out_) return Entered::kTurnIsOnItsWay;
    turn_out_ = true;
    return Entered::kNeedsTurn;
  }
  Entered enter_carefully(Waiter& waiter, bool ranked) KEYWAY_EXCLUDES(intake_, dispatch_);
  bool is_full(const Waiter& newcomer) const KEYWAY_REQUIRES(intake_, dispatch_);
  // For whoever has the turn.
  bool at_least(int wanted) KEYWAY_REQUIRES(dispatch_) KEYWAY_EXCLUDES(intake_);
  // Whether it stalled here, there is room again, and somebody waits: then it must be posted.
  bool take_up_turn() KEYWAY_REQUIRES(dispatch_) KEYWAY_EXCLUDES(intake_);
  void pop(LaneTake& taken) KEYWAY_REQUIRES(dispatch_) {
    if (rare_ != nullptr && rare_->returners > 0) --rare_->returners;
    taken.waiter = &taken_in_.pop_front();
    taken.number = ++started_;
  }
  // Who is next, or null.
  Waiter* first_in_line() const KEYWAY_REQUIRES(intake_, dispatch_);
  LaneCounts counts_locked() const KEYWAY_REQUIRES(intake_, dispatch_);
  std::uint64_t waiting() const KEYWAY_REQUIRES(intake_, dispatch_) {
    const std::uint64_t left =
        rare_ == nullptr ? 0 : rare_->withdrawn + rare_->expired + rare_->drained;
    return entered_ - started_ - left;
  }
  void count(LaneOutcome outcome) KEYWAY_REQUIRES(dispatch_);
  // Those who come back for their permit have begun before the pause.
  std::uint32_t limit_now() const KEYWAY_REQUIRES(dispatch_) {
    const bool held_back = paused_ && (rare_ == nullptr || rare_->returners == 0);
    return held_back ? 0 : limit_;
  }

  // ---- of a lane with ranks, see lane_ranks.cc

  // Of those who wait or run. Who has no priority waits in taken_in_ and inbox_ as ever.
  using Levels = std::map<int, WaiterList, std::greater<>>;
  // How many tasks have each cost above 1.
  class Costs {
   public:
    void add(std::uint32_t cost) {
      if (cost == 1) return;
      ++counts_[cost];
      extra_ += cost - 1;
    }
    void remove(std::uint32_t cost) {
      if (cost == 1) return;
      const auto found = counts_.find(cost);
      if (--found->second == 0) counts_.erase(found);
      extra_ -= cost - 1;
    }
    std::uint32_t largest() const { return counts_.empty() ? 1 : counts_.rbegin()->first; }
    std::uint64_t extra() const { return extra_; }  // the sum of (cost - 1)
    void clear() {
      counts_.clear();
      extra_ = 0;
    }

   private:
    std::map<std::uint32_t, std::uint64_t> counts_;
    std::uint64_t extra_ = 0;
  };
  struct Ranks {
    Levels levels;                    // by priority; none is empty
    Costs queued;                     // of all queued tasks
    Costs returning;                  // of those that came by enter_again()
    bool need_grew = false;           // see take_need_grew()
    std::uint64_t extra_running = 0;  // the sum of (cost - 1) of the running tasks
  };
  void begin_ranks() KEYWAY_REQUIRES(intake_, dispatch_) {
    if (ranks_ == nullptr) ranks_ = std::make_unique<Ranks>();
    careful_ = true;
    sure_room_ = 0;
  }
  void count_cost(std::uint32_t cost, bool returns) KEYWAY_REQUIRES(intake_, dispatch_);
  std::uint32_t units_of(const Waiter& waiter) const KEYWAY_REQUIRES(dispatch_) {
    return std::min(owner_.rank_of(waiter).cost, limit_);
  }
  bool fits(const Waiter& waiter) const KEYWAY_REQUIRES(dispatch_) {
    return std::uint64_t{running_} + units_of(waiter) <= limit_now();
  }
  void insert_ranked(Waiter& waiter) KEYWAY_REQUIRES(intake_, dispatch_);
  void remove_ranked(Waiter& waiter) KEYWAY_REQUIRES(intake_, dispatch_);
  void take_ranked(bool has_turn, LaneTake& taken) KEYWAY_REQUIRES(intake_, dispatch_);
  void finish_ranked(bool go_on, std::uint32_t units, LaneTake& taken) KEYWAY_REQUIRES(dispatch_)
      KEYWAY_EXCLUDES(intake_);
  // The turn is here: true if it must be posted.
  bool place_turn() KEYWAY_REQUIRES(intake_, dispatch_);
  void give_back_units(std::uint32_t units) KEYWAY_REQUIRES(dispatch_) {
    running_ -= units;
    if (ranks_ != nullptr) ranks_->extra_running -= units - 1;
  }
  void gather_ranked(WaiterList& all) KEYWAY_REQUIRES(intake_, dispatch_);
  void forget_ranks_if_empty() KEYWAY_REQUIRES(intake_, dispatch_);
  // Of the first `most` who wait, which have these costs, those who would fit, one after the other; and how many permits
  // would be out then. Looks at each of those who fit only if some cost more than 1 and not all fit.
  struct Fitting {
    std::uint64_t count = 0;
    std::uint64_t units = 0;
  };
  Fitting fitting(std::uint64_t most, const Costs& costs) const KEYWAY_REQUIRES(intake_, dispatch_);
  bool is_full_ranked(const Waiter& newcomer) const KEYWAY_REQUIRES(intake_, dispatch_);
  template <class Visit>  // bool visit(const Waiter&): false ends it
  void each_in_order(Visit visit) const KEYWAY_REQUIRES(intake_, dispatch_);
  std::uint64_t tasks_running() const KEYWAY_REQUIRES(dispatch_) {
    return running_ - (ranks_ == nullptr ? 0 : ranks_->extra_running);
  }
  // The number of tasks that gave their permits back and have not returned.
  std::uint64_t away() const KEYWAY_REQUIRES(dispatch_) {
    return rare_ == nullptr ? 0 : rare_->given_back - rare_->came_back;
  }

  // What most lanes never need.
  struct Rare {
    std::uint64_t failed = 0;
    std::uint64_t cancelled = 0;  // while they ran
    std::uint64_t withdrawn = 0;  // cancelled while they waited
    std::uint64_t expired = 0;
    std::uint64_t drained = 0;
    std::uint64_t given_back = 0;  // started, gave the permit back, and start once more
    std::uint64_t came_back = 0;   // of these, entered once more
    std::uint64_t returners = 0;   // of these, the first waiters of taken_in_
    Waiter* last_returner = nullptr;
    std::uint64_t stop_up_to = 0;
    std::uint64_t limits_version = 0;  // of the limits that were set after the lane was made
    LaneCounts outside;
  };
  Rare& rare() KEYWAY_REQUIRES(dispatch_) {
    if (rare_ == nullptr) rare_ = std::make_unique<Rare>();
    return *rare_;
  }

  // First cache line, with Runnable's own members and the flags above: those who enter.
  bool turn_out_ KEYWAY_GUARDED_BY(intake_) = false;  // posted or stalled
  bool closed_ KEYWAY_GUARDED_BY(intake_) = false;
  bool careful_ KEYWAY_GUARDED_BY(intake_);  // who enters must look: a waiting limit, or ranks
  // How many may enter before anybody need look at how many wait: those who leave only make more room.
  std::uint16_t sure_room_ KEYWAY_GUARDED_BY(intake_) = 0;
  mutable SpinLock<LockRank::kLaneIntake> intake_ KEYWAY_ACQUIRED_AFTER(dispatch_);
  detail::Atomic<std::uint32_t> waiting_limit_;  // written under both locks
  std::uint64_t entered_ KEYWAY_GUARDED_BY(intake_) = 0;
  WaiterList inbox_ KEYWAY_GUARDED_BY(intake_);
  std::unique_ptr<LaneExtension> extension_;  // constant once the lane is made

  // Second: those who take. taken_in_ stands before inbox_.
  alignas(64) mutable SpinLock<LockRank::kLaneDispatch> dispatch_;
  bool stalled_ KEYWAY_GUARDED_BY(dispatch_) = false;  // the turn is here
  bool paused_ KEYWAY_GUARDED_BY(dispatch_) = false;
  std::uint32_t limit_ KEYWAY_GUARDED_BY(dispatch_);
  std::uint32_t running_ KEYWAY_GUARDED_BY(dispatch_) = 0;
  WaiterList taken_in_ KEYWAY_GUARDED_BY(dispatch_);
  std::uint64_t started_ KEYWAY_GUARDED_BY(dispatch_) = 0;
  std::unique_ptr<Rare> rare_ KEYWAY_GUARDED_BY(dispatch_);
  std::unique_ptr<Ranks> ranks_ KEYWAY_GUARDED_BY(dispatch_);  // null: all are plain
  LaneOwner& owner_;

  // Third: what a lookup reads, and hardly anybody writes.
  alignas(64) const std::size_t hash_;
  Lane* next_in_bucket_ = nullptr;  // the table's, under its shard's lock
  const char* key_;                 // short_key_, or a block of its own
  const std::uint32_t key_size_;
  std::uint32_t pins_ = 0;  // the table's too
  char short_key_[32];
};
static_assert(sizeof(Lane) == 192);

// An order of a table's lanes that does not depend on where they lie in memory: a simulation can be replayed.
struct LaneByKey {
  bool operator()(const Lane* a, const Lane* b) const { return a->key() < b->key(); }
};

template <class Visit>
void Lane::each_in_order(Visit visit) const {
  const auto each = [&](WaiterList::Iterator from, WaiterList::Iterator to)
                        KEYWAY_REQUIRES(intake_, dispatch_) {
                          while (from != to && visit(*from)) ++from;
                          return from == to;
                        };
  auto no_returner = taken_in_.begin();
  for (std::uint64_t i = rare_ == nullptr ? 0 : rare_->returners; i > 0; --i, ++no_returner) {
    if (!visit(*no_returner)) return;
  }
  static const Levels no_levels;
  const Levels& levels = ranks_ == nullptr ? no_levels : ranks_->levels;
  auto level = levels.begin();
  for (; level != levels.end() && level->first > 0; ++level) {
    if (!each(level->second.begin(), level->second.end())) return;
  }
  if (!each(no_returner, taken_in_.end()) || !each(inbox_.begin(), inbox_.end())) return;
  for (; level != levels.end(); ++level) {
    if (!each(level->second.begin(), level->second.end())) return;
  }
}

}  // namespace keyway
