// One submitted task: queue place, callable, result and names in one block of memory.
//
// A TaskCore is shared by whoever runs the task and by its handle; the last to let go frees it.
// Its 56 bytes are followed by the callable (later the result), the group key and the task id.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <stop_token>
#include <string>
#include <string_view>

#include "keyway/detail/atomic.h"
#include "keyway/detail/check.h"
#include "keyway/detail/short_text.h"
#include "keyway/detail/task_extras.h"
#include "keyway/detail/waiter.h"
#include "keyway/error.h"
#include "keyway/rejection_reason.h"
#include "keyway/scheduler.h"
#include "keyway/task_status.h"

namespace keyway {

class Lane;
class WaitEdges;
class WantedLock;
class WantedWork;

namespace detail {

class Operation;
class TaskCore;

// Told once that it may go on.
class Wakeup {
 public:
  virtual void wake() noexcept = 0;

 protected:
  ~Wakeup() = default;
};

// Somebody whose task has found no room in its queue. Told once, without a lock: the task is in, or over;
// or no room will come any more.
class RoomWaiter {
 public:
  virtual void room_came(bool came) noexcept = 0;

 protected:
  ~RoomWaiter() = default;
};

// A task that waits for another one, from the beginning of the wait to its end.
class TaskWait {
 public:
  virtual ~TaskWait() = default;
  // The wait is over: takes back the permits that the waiting task could spare meanwhile, and wakes
  // it when they are there, perhaps at once.
  virtual void end(Wakeup& wakeup) noexcept = 0;
};

// A wait that a task, or a part of it, is about to begin.
struct IntendedWait {
  const Operation& operation;  // the waiting operation
  // The target of the wait: one of these is set.
  TaskCore* task = nullptr;
  WantedLock* lock = nullptr;
  const WantedWork* work = nullptr;

  bool bounded = false;               // the wait has a timeout
  bool blocks = false;                // the wait blocks the calling thread
  bool can_refuse = true;             // false: the WaitGraph does not check it
  bool is_last_of_unchecked = false;  // the last of several waits with can_refuse == false
  bool is_first = true;               // false: another wait of the operation has begun already
  // Edges of the same wait for tasks without permits, which the WaitGraph has not checked; or null.
  const WaitEdges* of_permitless = nullptr;
};

// Begins a wait: links it into the WaitGraph for every task that does not go on before it has ended,
// and gives back the permits that its target needs. Null if no other wait can depend on it. An error
// (kWaitCycle, kNoThread) if it could never end.
Result<std::unique_ptr<TaskWait>> begin_linked_wait(const IntendedWait& wait);

// The executor, as its tasks and handles see it.
class TaskOwner {
 public:
  enum class Waited { kDone, kTimedOut, kStopped };

  // The name of a task in messages: task "x" of group "y", unless the owner overrides it. REQUIRES:
  // the task is not done.
  virtual std::string name_of(const TaskCore& task) const;
  virtual bool cancel(TaskCore& task) = 0;
  // Ends a task whose time to begin is over, if it still waits.
  virtual void expire(TaskCore& task) noexcept = 0;
  // Blocks the calling thread until `task`, one of this owner's, is done. An error (kWaitCycle) if that would
  // never be.
  virtual Result<Waited> wait(TaskCore& task, const TimePoint* deadline, std::stop_token stop) = 0;
  // Begins a wait of `waiter`, a task of this owner with permits: gives back those that the target
  // needs. An error (kWaitCycle, kNoThread) if the wait could never end;
  // then the task keeps its permits.
  virtual Result<std::unique_ptr<TaskWait>> begin_wait(TaskCore& waiter,
                                                       const IntendedWait& wait) = 0;
  // `task`, a task of this owner with permits, starts a branch. It gives permits back only when neither
  // it nor a branch of it runs.
  virtual void branch_begins(TaskCore& task) = 0;
  // A branch of `task` is about to end, or to wait for branches of its own.
  virtual void branch_ends(TaskCore& task) noexcept = 0;
  // Begins a rest of a branch of `task`, a task of this owner with permits: it gives its global permit
  // back, if there is a global limit.
  virtual std::unique_ptr<TaskWait> begin_rest(TaskCore& task) = 0;
  // So many branches of `task`, a task of this owner with permits, do not run, but need no other task
  // to go on: they sleep, or stand on the stack of a branch that runs.
  virtual std::unique_ptr<TaskWait> begin_sleep(TaskCore& task, int branches) = 0;
  // Takes the lane's permit from `waiter`, a waiting task of this owner, until it goes on. Returns
  // the Runnable that the caller must post to the scheduler, or null.
  virtual Runnable* give_back_permit(TaskCore& waiter) = 0;
  // What `task`, a task of this owner, needs before it can run or go on.
  struct Need {
    std::uint64_t room = 0;   // permits of its lane; 0: none
    std::uint64_t limit = 0;  // of the lane
    static constexpr std::uint64_t kUnlimited = 0x7fffffff;
    bool thread = false;  // a thread of its scheduler
  };
  virtual Need need(TaskCore& task) = 0;
  // `task` has waited for room and entered its queue. Called under no lock. User code must not run
  // here.
  virtual void came_in(TaskCore&) noexcept {}
  // A coroutine task that was suspended has ended.
  virtual void ended_after_suspension(TaskCore& task) noexcept = 0;
  virtual Scheduler& scheduler() = 0;
  // Whether there is a global limit: a waiting task gives its permit of it back.
  virtual bool has_gate() const = 0;

 protected:
  ~TaskOwner() = default;
};

// What differs from one kind of callable to the next.
struct TaskOperations {
  std::uint32_t size_bytes;  // without the names
  bool is_return;            // not a task, but one that comes back for its permit after a wait
  bool is_coroutine;
  // Runs the callable and keeps its result. False: a coroutine that is suspended.
  bool (*run)(TaskCore&, TaskStatus&);
  // After a coroutine was suspended and has ended: keeps its result.
  TaskStatus (*collect)(TaskCore&);
  // Drops the callable unrun, keeps an error instead.
  void (*drop)(TaskCore&, std::exception_ptr);
  // Where the value is kept. REQUIRES: it succeeded.
  void* (*value)(TaskCore&);
  // Identifies the type of the value: the address of a kValueType.
  const void* value_type = nullptr;
  // The error that is kept. REQUIRES: it did not succeed.
  std::exception_ptr (*error)(TaskCore&);
  void (*destroy)(TaskCore&, TaskStatus);
  bool over_aligned;     // needs the alignment of a cache line
  bool can_stop;         // the callable takes a std::stop_token, or is a coroutine
  bool value_is_silent;  // the destructor of the value runs no user code
  // False if there is not.
  bool (*request_stop)(TaskCore&);
};

// Called by the thread that ended a task. It must be short and must not run user code, because that
// thread may hold the next task.
class Continuation {
 public:
  virtual void task_done() noexcept = 0;
  // Of a task that hands over: it has its permits, and whoever is told runs it. `number`: as LaneTake has it.
  virtual void turn_came(std::uint64_t /*number*/) noexcept {}

 protected:
  ~Continuation() = default;
};

class TaskCore {
 public:
  TaskCore(const TaskCore&) = delete;
  TaskCore& operator=(const TaskCore&) = delete;

  std::string_view group_key() const { return {names(), key_size_}; }
  std::string_view task_id() const { return {names() + key_size_, id_size_}; }
  TaskOwner& owner() const { return *owner_; }
  const TaskOperations& operations() const { return *operations_; }

  // ---- for whoever runs it

  // Those of one that was submitted with options; they come last in its block.
  bool has_extras() const noexcept {
    return (state_.load(std::memory_order_relaxed) & kExtras) != 0;
  }
  // REQUIRES: has_extras()
  TaskExtras& extras() const {
    const std::size_t names_end = operations_->size_bytes + std::size_t{key_size_} + id_size_;
    return *reinterpret_cast<TaskExtras*>(reinterpret_cast<std::uintptr_t>(this) +
                                          extras_offset(names_end));
  }
  // How many permits of its lane it holds while it runs.
  std::uint32_t units() const { return has_extras() ? extras().units : 1; }

  // How large a block it needs. Those of whole cache lines are aligned to one.
  static std::size_t block_bytes(const TaskOperations& operations, std::size_t names_bytes,
                                 bool has_extras = false) {
    std::size_t size = operations.size_bytes + names_bytes;
    if (has_extras) size = extras_offset(size) + sizeof(TaskExtras);
    return operations.over_aligned ? (size + 63) / 64 * 64 : size;
  }

  static const TaskCore& of(const Waiter& waiter) {
    return *reinterpret_cast<const TaskCore*>(&waiter);
  }
  static TaskCore& of(Waiter& waiter) { return *reinterpret_cast<TaskCore*>(&waiter); }
  Waiter& waiter() { return place_; }
  const Waiter& waiter() const { return place_; }

  // place_.next while it waits; what follows here while it runs; the end time when it is done.
  void set_lane(Lane* lane) { place_.next = reinterpret_cast<Waiter*>(lane); }
  Lane* lane() const { return reinterpret_cast<Lane*>(place_.next); }
  // False for a task that its submitter runs, or that is ending. REQUIRES: the task runs.
  bool holds_permits() const { return lane() != nullptr && !ending(); }

  // Whether the task does not run, but user code is told of it: it has no permits, and the code may
  // wait for other tasks of its group.
  bool ending() const { return (state_.load(std::memory_order_relaxed) & kEnding) != 0; }
  void set_ending(bool ending) {
    ending ? state_.fetch_or(kEnding, std::memory_order_relaxed)
           : state_.fetch_and(~kEnding, std::memory_order_relaxed);
  }

  TimePoint started() const { return TimePoint(Duration(started_)); }
  TimePoint ended() const {
    return TimePoint(Duration(reinterpret_cast<std::intptr_t>(place_.next)));
  }
  void set_started(TimePoint time) { started_ = time.time_since_epoch().count(); }

  // Whether it occupies a place in the executor's global queue.
  bool has_place() const { return (state_.load(std::memory_order_relaxed) & kPlace) != 0; }
  void set_has_place(bool has) {
    has ? state_.fetch_or(kPlace, std::memory_order_relaxed)
        : state_.fetch_and(~kPlace, std::memory_order_relaxed);
  }

  // Why the task was rejected; before that, which queue had no room for it.
  RejectionReason rejection() const {
    return static_cast<RejectionReason>((state_.load(std::memory_order_relaxed) >> kReasonShift) &
                                        kReasonMask);
  }
  void set_rejection(RejectionReason reason) {
    state_.fetch_and(~(kReasonMask << kReasonShift), std::memory_order_relaxed);
    state_.fetch_or(static_cast<std::uint32_t>(reason) << kReasonShift, std::memory_order_relaxed);
  }

  // Whether it has found no room in its queue, and somebody waits for some.
  bool awaits_room() const { return (state_.load(std::memory_order_relaxed) & kAwaitsRoom) != 0; }
  void set_awaits_room(bool awaits) {
    awaits ? state_.fetch_or(kAwaitsRoom, std::memory_order_relaxed)
           : state_.fetch_and(~kAwaitsRoom, std::memory_order_relaxed);
  }

  // Whether the thread that takes it from its lane does not run it, but tells its continuation.
  bool hands_over() const { return (state_.load(std::memory_order_relaxed) & kHandsOver) != 0; }
  void set_hands_over(bool hands_over) {
    hands_over ? state_.fetch_or(kHandsOver, std::memory_order_relaxed)
               : state_.fetch_and(~kHandsOver, std::memory_order_relaxed);
  }
  void hand_over(std::uint64_t number) { continuation_->turn_came(number); }

  // The task is done: the result is there, for others to see, and the runner lets go.
  void publish(TaskStatus status, TimePoint ended) noexcept;

  // ---- for its handle

  bool done() const noexcept { return (state_.load(std::memory_order_acquire) & kDone) != 0; }
  // REQUIRES: done()
  TaskStatus status() const noexcept {
    return static_cast<TaskStatus>((state_.load(std::memory_order_relaxed) >> kStatusShift) &
                                   kStatusMask);
  }
  // A task has one continuation at a time. A coroutine that is about to await it claims it first.
  enum class Claim { kClaimed, kTaskIsDone, kClaimedByAnother };
  Claim claim_continuation() noexcept {
    // acquire: the caller sees the result.
    const std::uint32_t before = state_.fetch_or(kClaimed, std::memory_order_acquire);
    if ((before & kDone) != 0) return Claim::kTaskIsDone;
    return (before & kClaimed) != 0 ? Claim::kClaimedByAnother : Claim::kClaimed;
  }
  // False if the task is done already; then the continuation is not called.
  // REQUIRES: the caller has claimed it, or no other thread has a handle of the task.
  bool set_continuation(Continuation& continuation) noexcept;
  // Removes the continuation and the claim. False if the task is done already: then another thread
  // calls, or has called, the continuation.
  bool remove_continuation() noexcept;
  // True for the first who takes the result.
  bool take_result() noexcept {
    return (state_.fetch_or(kTaken, std::memory_order_relaxed) & kTaken) == 0;
  }
  // Waitable: see runtime/blocking.h.
  std::uint32_t announce() noexcept {
    // acq_rel: publish() sees the sleeper; the caller sees the result.
    return state_.fetch_or(kSleepers, std::memory_order_acq_rel) | kSleepers;
  }
  const Atomic<std::uint32_t>& word() const noexcept { return state_; }
  void kick() noexcept;
  void retain() noexcept {
    const std::uint32_t state = state_.fetch_add(1, std::memory_order_relaxed);
    KEYWAY_CHECK((state & kReferences) < kReferences,
                 "a task has more references than it can count");
  }
  void release() noexcept;

 protected:
  TaskCore(const TaskOperations& operations, TaskOwner& owner, std::uint32_t references,
           std::string_view key, std::string_view id)
      : operations_(&operations),
        state_(references),
        key_size_(static_cast<std::uint16_t>(key.size())),
        id_size_(static_cast<std::uint16_t>(id.size())),
        owner_(&owner) {
    char* text = const_cast<char*>(names());
    copy_text(text, key);
    copy_text(text + key.size(), id);
  }
  // REQUIRES: the block has room for them, and nobody else knows the task yet.
  void add_extras() {
    new (&extras()) TaskExtras(*this);
    state_.fetch_or(kExtras, std::memory_order_relaxed);
  }
  ~TaskCore() = default;

 private:
  // state_: the number of references (11 bits), then flags, the status and the rejection reason (3
  // bits each), and a counter that kick() changes so that sleepers look again.
  static constexpr std::uint32_t kReferences = (1U << 11) - 1;
  static constexpr std::uint32_t kDone = 1U << 11;
  static constexpr std::uint32_t kTaken = 1U << 12;
  static constexpr std::uint32_t kSleepers = 1U << 13;
  static constexpr std::uint32_t kContinuation = 1U << 14;
  static constexpr int kStatusShift = 15;
  static constexpr std::uint32_t kStatusMask = 7;
  static constexpr std::uint32_t kPlace = 1U << 18;
  static constexpr std::uint32_t kExtras = 1U << 19;
  static constexpr std::uint32_t kAwaitsRoom = 1U << 20;
  static constexpr std::uint32_t kHandsOver = 1U << 21;
  static constexpr std::uint32_t kEnding = 1U << 22;
  static constexpr int kReasonShift = 23;
  static constexpr std::uint32_t kReasonMask = 7;
  static constexpr std::uint32_t kClaimed = 1U << 26;  // see claim_continuation()
  static constexpr std::uint32_t kKick = 1U << 27;

  static std::size_t extras_offset(std::size_t names_end) {
    return (names_end + alignof(TaskExtras) - 1) / alignof(TaskExtras) * alignof(TaskExtras);
  }

  const char* names() const {
    return reinterpret_cast<const char*>(this) + operations_->size_bytes;
  }
  void free(std::uint32_t state) noexcept;

  Waiter place_;
  const TaskOperations* operations_;
  Atomic<std::uint32_t> state_;
  const std::uint16_t key_size_;
  const std::uint16_t id_size_;
  TaskOwner* owner_;
  Duration::rep started_ = 0;
  Continuation* continuation_ = nullptr;
};
static_assert(sizeof(TaskCore) == 56);

// For messages: task "x" of group "y"; without an id, a task of group "y".
std::string name_of_task(std::string_view group_key, std::string_view task_id);
std::string name_of(const TaskCore& task);

// The error (kResultTaken) of a second coroutine that awaits a task.
Error awaited_already(const TaskCore& task);

}  // namespace detail
}  // namespace keyway
