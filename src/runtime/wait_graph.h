// The waits-for graph of the process. It refuses a wait that could never end, before the wait
// begins.
//
// An edge is the wait of an operation for a task, for a lock, or for other work. It can end
//   for a task   if the task's own waits can end, its lane has a permit for it, and its scheduler has
//                a thread for it;
//   for a lock   if the waits of the lock's holders can end, and a scheduler has a thread for each
//                holder that is a coroutine;
//   for work     if the waits of all parts of the work can end, and its scheduler has a thread.
// An await in a branch of when_any() or with_timeout() can also end if another branch can.
// A waiter holds permits of its lane, and perhaps a thread of its scheduler, until its wait can
// end. A wait can end only if the waits that cannot end leave enough permits and threads for it.
// The graph computes the smallest set of waits that satisfies these rules, so a cycle of waits is
// not in the set.
//
// A task that gave its lane's permit back needs a permit again before it goes on. So an edge stays
// linked until its waiter has gone on, and every wait for that waiter also depends on the waiter's
// return: the lane needs room for it, and its scheduler a thread. Permits of the global limit are
// not in the graph, because a waiting task holds none.
//
// Cost: the check takes constant time if few waits depend on the waiter or on its locks, and its target is not among them; or
// if the target does not wait and needs nothing that waiters hold. Otherwise the check follows the edges from the target, as it
// does if one of those waits is of an operation that holds more than Operation::kKnownLocks locks.
// A wait for work of several operations, as a drain in a task, is searched. The check of a wait in its scope also looks at it.
//
// A process has one graph, because a cycle may pass through several executors and through locks.
//
// Thread safety: every method from any thread. Under its mutex the graph calls need() and
// give_back_permit() of task owners, and max_threads() and how_to_get_more_threads() of schedulers, and
// asks locks for their holders.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
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
#include "keyway/detail/waiter.h"
#include "keyway/error.h"
#include "runtime/thread_context.h"

namespace keyway {

// A lock that an operation waits for.
class WantedLock {
 public:
  // See Operation::known_locks().
  virtual std::uint64_t id() const = 0;
  // An edge of the wait is linked, and not checked yet. Puts the operation into the lock's line,
  // unless an edge before has: of two waits for one lock, the later check sees the other waiter in
  // line.
  virtual void linked() = 0;
  // An edge of the wait is unlinked, because the wait has ended or is refused.
  virtual void unlinked() = 0;
  // The ids of the operations that keep `waiter` from the lock.
  virtual std::vector<std::uint64_t> in_the_way_of(const detail::Operation& waiter) const = 0;
  // Locks have passed from an operation to the one that it was a part of. Gives the lock to those in
  // its line who may have it now. The caller tells them, under no lock.
  struct Granted {
    Waiter* first = nullptr;  // a chain by `next`
    void (*tell)(Waiter* first) noexcept = nullptr;
  };
  virtual Granted look_again() = 0;
  // The wait cannot end any more. Takes the waiter out of the line; its wait throws the error. Also
  // gives the lock to those who may have it now.
  virtual Granted refuse(Error error) = 0;
  virtual std::string name() const = 0;

 protected:
  ~WantedLock() = default;
};

// Work other than a single task: all tasks of an executor or group, or a coroutine.
class WantedWork {
 public:
  virtual Scheduler* scheduler() const = 0;  // the work needs a thread of it; null: it needs none
  // The id of the operation that does the work; 0: several operations do it. The work depends on
  // the waits of that operation and of its parts.
  virtual std::uint64_t operation() const { return 0; }
  // If operation() is 0: whether the work depends on a wait of `task`. `wanted`: the work that the
  // task waits for; null if it waits for a task or a lock.
  virtual bool includes(const detail::TaskCore* /*task*/, const WantedWork* /*wanted*/) const {
    return false;
  }
  // If operation() is 0: all tasks that includes() may be true for are of these groups or executors, as long as the work is
  // wanted. So the waits of other tasks need not look at it.
  struct Scope {
    const detail::TaskOwner* owner = nullptr;  // null: no scope
    std::string_view key{};                    // empty: all groups
  };
  virtual std::array<Scope, 2> scopes() const { return {}; }
  // The executor, if the work is all tasks of an executor; otherwise null.
  virtual const void* all_tasks_of() const { return nullptr; }
  virtual std::string name() const = 0;
  // How to wait for it without blocking a thread of its scheduler, for messages. Work that no coroutine can await overrides it.
  virtual const char* how_to_wait_otherwise() const { return kWaitByAwait; }

  static constexpr const char* kWaitByAwait = "wait by co_await";
  static constexpr const char* kWaitElsewhere = "wait on a thread outside of this scheduler";

 protected:
  ~WantedWork() = default;
};

class WaitEdges;

class WaitGraph {
  struct WaiterNode;
  struct ThreadNode;
  struct Search;
  // A hash of a lane's owner and key. If two lanes have the same hash, one pair in 2^64, the graph
  // may refuse waits that could end.
  using LaneId = std::uint64_t;

 public:
  static WaitGraph& instance();

  // One wait. The waiter owns it; it is linked from begin() to end().
  class Edge {
   public:
    const detail::Operation* operation = nullptr;  // the waiting operation
    detail::TaskCore* waiter = nullptr;            // its task, if any
    // The target of the wait: one of these is set.
    detail::TaskCore* task = nullptr;
    WantedLock* lock = nullptr;
    const WantedWork* work = nullptr;

    // The waiter goes on when this task has its permits again. Null: when the waiter has.
    const detail::TaskCore* returns_with = nullptr;

    bool holds_permit = false;  // keeps the lane's permit, unless another wait gives it back
    bool gives_back = false;    // gives the lane's permit back
    // The waiter gives its global permit back. Its return needs a thread, because a suspended coroutine
    // may hold that permit.
    bool leaves_gate = false;
    bool can_give_back = false;  // give_back_permit() can take a kept permit from the waiter
    bool bounded = false;        // the wait has a timeout
    bool announced = false;      // the wait has not begun: its waiter runs, and has its permits
    bool of_several = false;     // one call waits for several tasks

    // The wait blocks the calling thread.
    void block_this_thread();
    bool blocks_a_thread() const { return blocks_; }
    bool blocks_a_thread_of(const Scheduler* scheduler) const { return thread_ == scheduler; }
    // How the waiter can wait without blocking a thread of the scheduler, for messages.
    const char* how_to_wait_otherwise() const;
    std::string target_name() const;  // for messages
    std::string waiter_name() const;

   private:
    friend class WaitGraph;
    bool blocks_ = false;
    Scheduler* thread_ = nullptr;  // the wait blocks a thread of it; null: of no scheduler, or none
    std::uint64_t thread_id_ = 0;
    std::uint64_t kernel_thread_ = 0;  // the blocked thread's id in the kernel, if it runs no task
    LaneId target_lane_ = 0;
    WaiterNode* node_ = nullptr;
    ThreadNode* thread_node_ = nullptr;
    bool over_ = false;       // the target is done, or the waiter has given up
    bool can_end_ = false;    // result of the search seen_
    std::uint64_t seen_ = 0;  // the last search that visited the edge
    boost::intrusive::list_member_hook<> all_hook_;
    boost::intrusive::list_member_hook<> waiter_hook_;
    boost::intrusive::list_member_hook<> thread_hook_;
    boost::intrusive::list_member_hook<> target_hook_;
  };

  // Links the edge, or refuses the wait: the error (kWaitCycle, kNoThread) names the cycle. `others`:
  // edges of the same wait that are linked, and were not checked.
  Result<void> begin(Edge& edge, const WaitEdges* others = nullptr) KEYWAY_EXCLUDES(mutex_);
  // The same for a wait of `waiter`, or of no task if it is null. Writes the wait into the edge. If
  // the wait must not be refused, it is not checked, and an error says that it is over already.
  Result<void> begin(Edge& edge, detail::TaskCore* waiter, const detail::IntendedWait& wait)
      KEYWAY_EXCLUDES(mutex_);
  // Links the edge without a check.
  // False, and nothing is linked, if the task that it waits for is done: others may have begun waits that count on its waiter
  // to go on at once.
  bool begin_unchecked(Edge& edge) KEYWAY_EXCLUDES(mutex_);
  // The target is done, or the waiter has given up. The edge stays linked until end(), because the
  // waiter may need its permits again. True: the waiter now holds its lane's permits while it waits in
  // other branches, and did not before. Waits that were accepted meanwhile may need these permits.
  bool set_over(Edge& edge) KEYWAY_EXCLUDES(mutex_);
  void end(Edge& edge) KEYWAY_EXCLUDES(mutex_);

  // `waiter` has its permits again, now `units` of its lane. The owner calls this before it counts
  // them as the task's. True: it holds permits of the lane while it waits in other branches, and waits that were accepted
  // meanwhile may need them.
  bool came_back(const detail::TaskCore& waiter, std::uint32_t units) KEYWAY_EXCLUDES(mutex_);
  // `waiter` is about to give back again the permits that its waits need. True: its lane has lost room since the waiter had
  // them, so the caller calls room_shrank() again after that.
  bool leaves_again(detail::TaskCore& waiter) KEYWAY_EXCLUDES(mutex_);

  // The operation with this id has got the locks of one of its parts. Its other parts may wait for
  // them. Waits that were accepted before may now form a cycle: a wait for one of the locks is refused.
  void locks_passed_on(std::uint64_t operation) KEYWAY_EXCLUDES(mutex_);

  // Waits for a running search, which may call the owner of a task that was not done when it looked.
  void wait_for_searches() KEYWAY_EXCLUDES(mutex_) { const MutexLock lock(mutex_); }
  // Calls `change` while no search runs: for changes that a search must see as a whole, or not at all.
  template <class Change>
  auto between_searches(Change change) KEYWAY_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return change();
  }

  // Whether the operation or a part of it waits.
  bool has_waits(std::uint64_t operation) KEYWAY_EXCLUDES(mutex_);

  // The name of the target of a wait of `waiter`, for messages; empty if the task does not wait.
  std::string waits_for(const detail::TaskCore& waiter) KEYWAY_EXCLUDES(mutex_);

  // The owner calls this after a lane's limit went down or a costlier task entered its queue. Waits
  // that were accepted before may now form a cycle: waiters of the lane that cannot end give their
  // permits back until they go on. True if any did.
  bool room_shrank(const detail::TaskOwner& owner, std::string_view key) KEYWAY_EXCLUDES(mutex_) {
    // relaxed: both the check of a wait and the change of the lane take the lane's lock. So a wait
    // that was checked before the change is counted here, and a later check sees the changed lane.
    return edge_count_.load(std::memory_order_relaxed) > 0 &&
           free_what_is_stuck(lane_id(owner, key));
  }

 private:
  template <auto Hook>
  using EdgeList = boost::intrusive::list<
      Edge, boost::intrusive::member_hook<Edge, boost::intrusive::list_member_hook<>, Hook>>;

  // A waiting task. A coroutine may wait in several branches.
  struct WaiterNode {
    // Whether the task needs a permit of its lane, or a global one, before it goes on.
    bool is_away() const { return comes_back.waiter != nullptr; }
    // Whether the task waits in a listener while others of its waits are only announced: it gives
    // the lane's permits back for them when its begun waits have ended.
    bool gives_back_later() const { return begun > 0 && announced_give_back > 0; }

    EdgeList<&Edge::waiter_hook_> edges;
    // Numbers of edges that are not over.
    std::size_t keep_permit = 0;
    std::size_t give_back = 0;
    std::size_t begun = 0;                // not only announced
    std::size_t announced_give_back = 0;  // of give_back
    std::size_t leave_gate = 0;           // of begun
    std::size_t announced = 0;            // over or not
    // The wait for the permits that the task gave back. It is in no list.
    Edge comes_back;
    bool lane_away = false;   // the task gave its lane's permits back
    std::uint64_t since = 0;  // the value of shrinks_ when the task last had its permits
    LaneId lane = 0;
    std::uint32_t units = 0;    // the number of permits that the task costs
    bool holds_permit = false;  // the task holds its lane's permits while it waits
    boost::intrusive::list_member_hook<> lane_hook;
  };
  // A blocked thread of a scheduler. It may have several waits, and is free when all of them have
  // ended.
  struct ThreadNode {
    EdgeList<&Edge::thread_hook_> edges;
    Scheduler* scheduler = nullptr;
    boost::intrusive::list_member_hook<> scheduler_hook;
  };
  using ThreadList = boost::intrusive::list<
      ThreadNode, boost::intrusive::member_hook<ThreadNode, boost::intrusive::list_member_hook<>,
                                                &ThreadNode::scheduler_hook>>;
  // A lane in which waiters hold permits, or whose tasks are targets of waits.
  struct LaneNode {
    boost::intrusive::list<
        WaiterNode, boost::intrusive::member_hook<WaiterNode, boost::intrusive::list_member_hook<>,
                                                  &WaiterNode::lane_hook>>
        holders;
    std::uint64_t held = 0;  // the permits of the holders
    std::uint64_t targets =
        0;  // the number of edges whose target is in this lane, or needs its room
    std::uint64_t shrunk = 0;  // the value of shrinks_ when the lane last lost room
    bool unused() const { return holders.empty() && targets == 0; }
  };

  // An empty key stands for all lanes of the owner.
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
  void set_lane_away(WaiterNode& node, bool away) KEYWAY_REQUIRES(mutex_);
  void enter_lane_again(WaiterNode& node) KEYWAY_REQUIRES(mutex_);
  void update_hold(WaiterNode& node) KEYWAY_REQUIRES(mutex_);
  void hold_lane(WaiterNode& node) KEYWAY_REQUIRES(mutex_);
  void let_lane_go(WaiterNode& node) KEYWAY_REQUIRES(mutex_);
  void forget_lane_if_unused(LaneId lane) KEYWAY_REQUIRES(mutex_);
  std::size_t blocked_threads(const Scheduler* scheduler) const KEYWAY_REQUIRES(mutex_);
  bool threads_are_scarce(const Scheduler* scheduler) const KEYWAY_REQUIRES(mutex_);
  std::uint64_t held_in(LaneId lane) const KEYWAY_REQUIRES(mutex_);
  static bool is_work_of_several(const Edge& edge);
  void link_work(const Edge& edge) KEYWAY_REQUIRES(mutex_);
  void unlink_work(const Edge& edge) KEYWAY_REQUIRES(mutex_);
  bool closes_no_cycle(const Edge& edge) const KEYWAY_REQUIRES(mutex_);
  // Whether all waits that depend on this one are waits for its waiter, or for locks that its operation holds.
  bool only_waits_for_waiter_depend_on(const Edge& edge) const KEYWAY_REQUIRES(mutex_);
  // Whether others than those who wait for `waiter` may need room in its lane.
  bool others_need_room(const WaiterNode& node, detail::TaskCore& waiter) const
      KEYWAY_REQUIRES(mutex_);
  bool can_end_at_once(Edge& edge) KEYWAY_REQUIRES(mutex_);
  bool can_come_back_at_once(const WaiterNode& node) const KEYWAY_REQUIRES(mutex_);
  bool free_what_is_stuck(LaneId lane) KEYWAY_EXCLUDES(mutex_);
  struct StuckHolders {
    std::vector<WaiterNode*> nodes;
    // As long as fewer of their permits come free, no other wait can end.
    std::uint64_t lacking = std::numeric_limits<std::uint64_t>::max();
  };
  StuckHolders find_stuck_holders(LaneId lane) KEYWAY_REQUIRES(mutex_);
  bool leave_lane_if_it_can_return(WaiterNode& node) KEYWAY_REQUIRES(mutex_);
  // For an await in a branch of when_any(): true if another branch does not wait, or adds the waits of each other branch.
  bool find_rivals(const Edge& edge, std::vector<std::vector<Edge*>>& rivals) const
      KEYWAY_REQUIRES(mutex_);
  // The return that the waiter of `edge` needs to go on after the wait; null: none.
  Edge* return_after(const Edge& edge) KEYWAY_REQUIRES(mutex_);
  // The return that `operation` needs to go on, if its task has given permits back.
  Edge* return_of(std::uint64_t operation) KEYWAY_REQUIRES(mutex_);
  bool can_go_on_after(const Edge& edge) KEYWAY_REQUIRES(mutex_);
  void add_with_return(Search& search, Edge& edge) KEYWAY_REQUIRES(mutex_);
  static std::size_t waits_before_release(const WaiterNode& node);
  void add_threads(Search& search, const Scheduler& scheduler) KEYWAY_REQUIRES(mutex_);
  void explore(Search& search) KEYWAY_REQUIRES(mutex_);
  void settle(Search& search) KEYWAY_REQUIRES(mutex_);
  std::vector<const Edge*> find_cycle(const Edge& edge, Search& search, const Scheduler*& short_of)
      KEYWAY_REQUIRES(mutex_);
  Error refuse(const Edge& edge, Search& search) KEYWAY_REQUIRES(mutex_);
  std::optional<WantedLock::Granted> refuse_a_wait_for(std::uint64_t holder)
      KEYWAY_REQUIRES(mutex_);

  detail::Atomic<std::size_t> edge_count_{0};  // written under mutex_
  Mutex<LockRank::kWaitGraph> mutex_;
  EdgeList<&Edge::all_hook_> edges_ KEYWAY_GUARDED_BY(mutex_);
  std::unordered_map<const detail::TaskCore*, WaiterNode> waiters_ KEYWAY_GUARDED_BY(mutex_);
  std::unordered_map<LaneId, LaneNode> lanes_ KEYWAY_GUARDED_BY(mutex_);
  // By target: the edges for that task.
  std::unordered_map<const detail::TaskCore*, EdgeList<&Edge::target_hook_>> targets_
      KEYWAY_GUARDED_BY(mutex_);
  // By the lock's id: the edges for that lock.
  std::unordered_map<std::uint64_t, EdgeList<&Edge::target_hook_>> lock_targets_
      KEYWAY_GUARDED_BY(mutex_);
  // Tasks whose return other edges wait for: see Edge::returns_with.
  std::unordered_multiset<const detail::TaskCore*> returners_ KEYWAY_GUARDED_BY(mutex_);
  // Key: the ids of an edge's operation and of the operations that it is a part of.
  std::unordered_map<std::uint64_t, std::unordered_set<Edge*>> by_operation_
      KEYWAY_GUARDED_BY(mutex_);
  std::map<std::pair<std::uint64_t, const Scheduler*>, ThreadNode> threads_
      KEYWAY_GUARDED_BY(mutex_);
  std::unordered_map<const Scheduler*, ThreadList> blocked_ KEYWAY_GUARDED_BY(mutex_);
  // Lanes of waiters that would have given their permits back if a thread had come free for their return.
  std::unordered_set<LaneId> short_of_threads_ KEYWAY_GUARDED_BY(mutex_);
  // The edges for work of several operations, by its scopes. Such an edge depends on each edge that its work includes.
  std::unordered_map<LaneId, std::unordered_set<const Edge*>> work_edges_ KEYWAY_GUARDED_BY(mutex_);
  std::uint64_t searches_ KEYWAY_GUARDED_BY(mutex_) = 0;
  std::uint64_t shrinks_ KEYWAY_GUARDED_BY(mutex_) = 0;  // how often a lane has lost room
};

}  // namespace keyway
