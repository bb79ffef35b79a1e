// Every wait of the process that could be part of a cycle, so that a wait which could never end is refused instead of
// begun.
//
// An edge is an operation that waits for a task, for a lock, or for other work. The wait can end
//   for a task   if the task's own waits can end; if it has a permit of its lane or can get one; and if its scheduler has
//                a thread for it;
//   for a lock   if the waits of its holders can end, and those that are coroutines can get a thread;
//   for work     if the waits of all of its parts can end, and its scheduler has a thread.
// An await in a branch of when_any() or with_timeout() can also end if another branch can.
// Permits of a lane and threads of a scheduler are counted the same way: a waiter that can end gives back what it
// holds, and waiters that cannot end must leave enough of it. The set of waits that can end is the least one that these
// rules give, so waits on each other are not in it.
//
// A task that gave its lane's permit back needs it again before it goes on. So an edge stays linked until its waiter has
// gone on, and whatever depends on that waiter also depends on its return: the lane must have room for it, and its
// scheduler a thread. Permits of the global limit are not in the graph, because no waiting task holds one.
//
// Cost: a wait is checked in constant time if its target does not wait itself and needs nothing that waiters hold, or if
// nothing depends on the waiter. Otherwise the check follows the edges from the target.
//
// There is one graph in a process: cycles may run through several executors, and through locks.
//
// Thread safety: every method from any thread. Under the graph's mutex it asks owners for need() and to give a permit
// back, and locks for their holders.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <boost/intrusive/list.hpp>

#include "base/mutex.h"
#include "keyway/detail/atomic.h"
#include "keyway/detail/operation.h"
#include "keyway/detail/task_core.h"
#include "keyway/error.h"
#include "runtime/thread_context.h"

namespace keyway {

// A lock that an operation waits for.
class WantedLock {
 public:
  // Puts the operation into the line of the lock. Called once, under the graph's mutex, after the wait is linked and before it
  // is checked: so of two waits for one lock, the one that is checked later sees the other in line.
  virtual void stand_in_line() = 0;
  // The operations that keep `waiter` from it: its holders, by their ids.
  virtual std::vector<std::uint64_t> in_the_way_of(const detail::Operation& waiter) const = 0;
  virtual std::string name() const = 0;

 protected:
  ~WantedLock() = default;
};

// Work that a thread waits for and that is not a single task: all tasks of an executor, or a coroutine.
class WantedWork {
 public:
  virtual Scheduler* scheduler() const = 0;  // whose thread it needs; null: none
  // The id of the operation that does the work; 0: it is the work of several. The waits of that operation, and of its
  // parts, hold the work up.
  virtual std::uint64_t operation() const { return 0; }
  // For work of several: whether the wait of `task` holds it up. `wanted`: the work that the task waits for, if it waits
  // neither for a task nor for a lock.
  virtual bool includes(const detail::TaskCore* /*task*/, const WantedWork* /*wanted*/) const {
    return false;
  }
  // The executor whose tasks it is, all of them; null for other work.
  virtual const void* all_tasks_of() const { return nullptr; }
  virtual std::string name() const = 0;

 protected:
  ~WantedWork() = default;
};

class WaitGraph {
  struct WaiterNode;
  struct ThreadNode;
  struct Search;
  // A lane: a hash of its owner and key. Two lanes with the same id, one in 2^64, would only refuse too much.
  using LaneId = std::uint64_t;

 public:
  static WaitGraph& instance();

  // One wait. The waiter owns it; it is linked from begin() to end().
  class Edge {
   public:
    const detail::Operation* operation = nullptr;  // that waits
    detail::TaskCore* waiter = nullptr;            // its task, if any
    // What it waits for: one of these.
    detail::TaskCore* task = nullptr;
    WantedLock* lock = nullptr;
    const WantedWork* work = nullptr;

    // What becomes of the lane's permit meanwhile: the waiter keeps it, unless another of its waits gives it back; or
    // this wait gives it back.
    bool holds_permit = false;
    bool gives_back = false;
    // The waiter gives its global permit back. To have it again it needs a thread: the permit may be with a lane whose turn
    // has no thread yet.
    bool leaves_gate = false;
    bool can_give_back = false;  // its owner can take a kept permit back for the time of the wait
    bool bounded = false;        // it ends by itself, by a timeout

    // The calling thread waits, and runs nothing else meanwhile.
    void block_this_thread() {
      thread_ = Scheduler::current();
      thread_id_ = ThreadContext::here().id();
    }
    bool blocks_a_thread() const { return thread_ != nullptr; }
    std::string target_name() const;  // for messages

   private:
    friend class WaitGraph;
    Scheduler* thread_ = nullptr;  // whose thread it blocks; null: none
    std::uint64_t thread_id_ = 0;
    const detail::TaskCore* ends_with_ = nullptr;
    LaneId target_lane_ = 0;
    WaiterNode* node_ = nullptr;
    ThreadNode* thread_node_ = nullptr;
    bool over_ = false;       // what it waited for has come, or it has given up
    bool can_end_ = false;    // of the search
    std::uint64_t seen_ = 0;  // the search that found it last
    boost::intrusive::list_member_hook<> all_hook_;
    boost::intrusive::list_member_hook<> waiter_hook_;
    boost::intrusive::list_member_hook<> thread_hook_;
  };

  // Links the edge, or refuses it: an error (kWaitCycle, or kNoThread) that names the cycle.
  Result<void> begin(Edge& edge) KEYWAY_EXCLUDES(mutex_);
  // Links it in any case: for a wait that cannot be refused.
  void begin_unchecked(Edge& edge) KEYWAY_EXCLUDES(mutex_);
  // What it waits for has come, or it has given up. It stays linked, because its waiter may want its permit back.
  void set_over(Edge& edge) KEYWAY_EXCLUDES(mutex_);
  void end(Edge& edge) KEYWAY_EXCLUDES(mutex_);

  // `waiter` gave its lane's permit back, and has it again; it costs `units` now. To be called before its owner counts
  // the permit as the task's own.
  void came_back(const detail::TaskCore& waiter, std::uint32_t units) KEYWAY_EXCLUDES(mutex_);
  // The same for a task that kept its lane's permit. If another of its waits gave that back meanwhile, it is still away.
  void came_back_through_gate(const detail::TaskCore& waiter) KEYWAY_EXCLUDES(mutex_);
  // `waiter` is about to give its permits back once more, as its waits need them.
  void leaves_again(detail::TaskCore& waiter) KEYWAY_EXCLUDES(mutex_);

  // The name of what `waiter` waits for, for people; empty if it does not wait.
  std::string waits_for(const detail::TaskCore& waiter) KEYWAY_EXCLUDES(mutex_);

  // To be called when fewer may run in a lane than before, or a costlier task stands in it. Waiters that hold permits
  // there which others would now need for ever give them back for the time of the wait. True if any did.
  bool room_shrank(const detail::TaskOwner& owner, std::string_view key) KEYWAY_EXCLUDES(mutex_) {
    // relaxed: a wait that began before the lane changed is seen here, for its check and the change are under the
    // lane's lock. One that begins afterwards sees the new lane.
    return edge_count_.load(std::memory_order_relaxed) > 0 &&
           free_what_is_stuck(lane_id(owner, key));
  }

 private:
  template <auto Hook>
  using EdgeList = boost::intrusive::list<
      Edge, boost::intrusive::member_hook<Edge, boost::intrusive::list_member_hook<>, Hook>>;

  // A task that waits, perhaps in several branches.
  struct WaiterNode {
    // Whether it has to come back: to its lane, or through the gate.
    bool is_away() const { return comes_back.waiter != nullptr; }

    EdgeList<&Edge::waiter_hook_> edges;
    // Of those that are not over.
    std::size_t keep_permit = 0;
    std::size_t give_back = 0;
    std::size_t leave_gate = 0;
    // Stands for the return, if it gave permits back. In no list.
    Edge comes_back;
    bool lane_away = false;  // the lane's permit is given back
    LaneId lane = 0;
    std::uint32_t units = 0;    // the permits that it costs
    bool holds_permit = false;  // it waits, and holds them
    boost::intrusive::list_member_hook<> lane_hook;
  };
  // A thread of a scheduler that waits; perhaps for several things at once. It is free when all of these waits have ended.
  struct ThreadNode {
    EdgeList<&Edge::thread_hook_> edges;
    Scheduler* scheduler = nullptr;
    boost::intrusive::list_member_hook<> scheduler_hook;
  };
  using ThreadList = boost::intrusive::list<
      ThreadNode, boost::intrusive::member_hook<ThreadNode, boost::intrusive::list_member_hook<>,
                                                &ThreadNode::scheduler_hook>>;
  // A lane with waiters that hold its permits, or with tasks that are waited for.
  struct LaneNode {
    boost::intrusive::list<
        WaiterNode, boost::intrusive::member_hook<WaiterNode, boost::intrusive::list_member_hook<>,
                                                  &WaiterNode::lane_hook>>
        holders;
    std::uint64_t held = 0;     // permits of these
    std::uint64_t targets = 0;  // edges whose task is in this lane
    bool unused() const { return holders.empty() && targets == 0; }
  };

  static LaneId lane_id(const detail::TaskOwner& owner, std::string_view key);
  static LaneId lane_id(const detail::TaskCore& task) {
    return lane_id(task.owner(), task.group_key());
  }
  void link(Edge& edge) KEYWAY_REQUIRES(mutex_);
  void link_thread(Edge& edge) KEYWAY_REQUIRES(mutex_);
  void unlink(Edge& edge) KEYWAY_REQUIRES(mutex_);
  void unlink_target(Edge& edge) KEYWAY_REQUIRES(mutex_);
  void unlink_thread(Edge& edge) KEYWAY_REQUIRES(mutex_);
  void leave(WaiterNode& node, detail::TaskCore& waiter, bool lane) KEYWAY_REQUIRES(mutex_);
  void enter_lane_again(WaiterNode& node) KEYWAY_REQUIRES(mutex_);
  void update_hold(WaiterNode& node) KEYWAY_REQUIRES(mutex_);
  void hold_lane(WaiterNode& node) KEYWAY_REQUIRES(mutex_);
  void let_lane_go(WaiterNode& node) KEYWAY_REQUIRES(mutex_);
  void forget_lane_if_unused(LaneId lane) KEYWAY_REQUIRES(mutex_);
  std::size_t blocked_threads(const Scheduler* scheduler) const KEYWAY_REQUIRES(mutex_);
  bool threads_are_scarce(const Scheduler* scheduler) const KEYWAY_REQUIRES(mutex_);
  std::uint64_t held_in(LaneId lane) const KEYWAY_REQUIRES(mutex_);
  bool nothing_depends_on(const Edge& edge) const KEYWAY_REQUIRES(mutex_);
  bool can_end_at_once(Edge& edge) KEYWAY_REQUIRES(mutex_);
  bool can_come_back_at_once(const WaiterNode& node) KEYWAY_REQUIRES(mutex_);
  bool free_what_is_stuck(LaneId lane) KEYWAY_EXCLUDES(mutex_);
  // For an await in a branch of when_any(): true if another branch does not wait, or adds the waits of each other branch.
  bool find_rivals(const Edge& edge, std::vector<std::vector<Edge*>>& rivals) const
      KEYWAY_REQUIRES(mutex_);
  void explore(Search& search) KEYWAY_REQUIRES(mutex_);
  void settle(Search& search) KEYWAY_REQUIRES(mutex_);
  Error refuse(const Edge& edge, Search& search) KEYWAY_REQUIRES(mutex_);

  detail::Atomic<std::size_t> edge_count_{0};  // written under mutex_
  Mutex<LockRank::kWaitGraph> mutex_;
  EdgeList<&Edge::all_hook_> edges_ KEYWAY_GUARDED_BY(mutex_);
  std::unordered_map<const detail::TaskCore*, WaiterNode> waiters_ KEYWAY_GUARDED_BY(mutex_);
  std::unordered_map<LaneId, LaneNode> lanes_ KEYWAY_GUARDED_BY(mutex_);
  std::unordered_map<const detail::TaskCore*, std::size_t> targets_ KEYWAY_GUARDED_BY(mutex_);
  // By the id of each operation that an edge's operation is, or is a part of.
  std::unordered_map<std::uint64_t, std::unordered_set<Edge*>> by_operation_
      KEYWAY_GUARDED_BY(mutex_);
  std::map<std::pair<std::uint64_t, const Scheduler*>, ThreadNode> threads_
      KEYWAY_GUARDED_BY(mutex_);
  std::unordered_map<const Scheduler*, ThreadList> blocked_ KEYWAY_GUARDED_BY(mutex_);
  // Edges for work of several, which may depend on any other edge.
  std::size_t work_edges_ KEYWAY_GUARDED_BY(mutex_) = 0;
  std::uint64_t searches_ KEYWAY_GUARDED_BY(mutex_) = 0;
};

}  // namespace keyway
