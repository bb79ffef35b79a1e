#include "keyway/detail/operation.h"

#include <atomic>
#include <unordered_map>

#include <unistd.h>

#include "base/mutex.h"
#include "keyway/detail/task_core.h"
#include "runtime/current_task.h"
#include "runtime/left_locks.h"
#include "runtime/wait_graph.h"

namespace keyway::detail {

namespace {

// An id is a serial number and the thread it was drawn on: the kernel's thread ids have 22 bits.
constexpr int kThreadBits = 22;
constexpr std::uint64_t kThreadMask = (std::uint64_t{1} << kThreadBits) - 1;

// Operations that have drawn an id, except threads: the living ones, and those whose task has left locks.
struct Known {
  const TaskCore* task = nullptr;
  Scheduler* scheduler = nullptr;  // resumes a coroutine outside of tasks
  std::uint64_t inline_run = 0;    // see inline_run_of()
  bool has_ended = false;
};
struct Operations {
  static Operations& instance() {
    static Operations* operations = new Operations;
    return *operations;
  }
  Known find(std::uint64_t id) KEYWAY_EXCLUDES(mutex) {
    MutexLock lock(mutex);
    const auto found = by_id.find(id);
    return found != by_id.end() ? found->second : Known{};
  }

  Mutex<> mutex;
  std::unordered_map<std::uint64_t, Known> by_id KEYWAY_GUARDED_BY(mutex);
  // The operations of tasks that have left locks.
  std::unordered_map<const TaskCore*, std::uint64_t> left KEYWAY_GUARDED_BY(mutex);
  Atomic<std::size_t> left_count{0};  // written under the mutex
};

// What is known of the locks of parts.
struct Parts {
  struct Ended {
    std::uint64_t whole = 0;  // has the locks of the part, also if it has ended, too; 0: none
    std::uint32_t locks = 0;  // that are held
  };
  static Parts& instance() {
    static Parts* parts = new Parts;
    return *parts;
  }
  // The locks of a part that ends with `locks` of them go to `whole`. Returns how many are held.
  std::uint32_t pass_on(std::uint64_t part, std::uint32_t locks, std::uint64_t whole)
      KEYWAY_REQUIRES(mutex) {
    if (const auto found = released.extract(part); !found.empty()) locks -= found.mapped();
    if (locks > 0) ended[part] = {whole, locks};
    return locks;
  }

  Mutex<> mutex;
  // By id.
  std::unordered_map<std::uint64_t, Ended> ended KEYWAY_GUARDED_BY(mutex);
  // Of parts that have not ended: how many of their locks other operations have released.
  std::unordered_map<std::uint64_t, std::uint32_t> released KEYWAY_GUARDED_BY(mutex);
};

std::uint64_t next_id() {
  constexpr std::uint64_t kBlock = 1024;
  static std::atomic<std::uint64_t> blocks{0};
  thread_local std::uint64_t next = 0;
  thread_local const auto thread = static_cast<std::uint64_t>(gettid()) & kThreadMask;
  if (next % kBlock == 0) next = blocks.fetch_add(kBlock, std::memory_order_relaxed);
  return (++next << kThreadBits) | thread;
}

}  // namespace

constinit thread_local Operation CurrentTaskScope::thread_{};

std::uint64_t Operation::draw_id() const {
  const std::uint64_t drawn = next_id() | (is_part() ? kPartBit : 0);
  // Branches may draw the id of the operation that they are parts of at the same time.
  if (task_ == nullptr && scheduler_ == nullptr) {
    std::uint64_t id = 0;
    return id_.compare_exchange_strong(id, drawn, std::memory_order_relaxed) ? drawn : id;
  }
  Known known{.task = task_, .scheduler = scheduler_};
  if (confined_) {
    const Operation& run = inline_run();
    known.inline_run = &run == this ? drawn : run.id();
  }
  Operations& operations = Operations::instance();
  MutexLock lock(operations.mutex);
  // relaxed: who looks for the operation by the id takes the mutex.
  if (const std::uint64_t id = id_.load(std::memory_order_relaxed); id != 0) return id;
  operations.by_id.emplace(drawn, known);
  id_.store(drawn, std::memory_order_relaxed);
  return drawn;
}

// A nested run is a part of a coroutine of the outer one.
const Operation& Operation::inline_run() const {
  const Operation* one = this;
  while (!one->is_awaited) one = one->parent_;
  return *one;
}

void TaskOperation::end() {
  const bool is_part = (id() & kPartBit) != 0;
  if (locks_held() > 0 && is_part) {
    Parts& parts = Parts::instance();
    MutexLock lock(parts.mutex);
    (void)parts.pass_on(id(), locks_held(), 0);
  }
  {
    Operations& operations = Operations::instance();
    MutexLock lock(operations.mutex);
    const bool leaves_locks =
        locks_held() > 0 && !is_part && task() != nullptr && task() == LeftLocks::Ending::task();
    if (leaves_locks && operations.left.emplace(task(), id()).second) {
      operations.by_id.at(id()).has_ended = true;
      operations.left_count.store(operations.left.size(), std::memory_order_relaxed);
    } else {
      operations.by_id.erase(id());
    }
  }
  // A search may have found the scheduler of a coroutine outside of tasks, which may be destroyed next.
  if (task() == nullptr && !is_confined()) WaitGraph::instance().wait_for_searches();
}

// relaxed, also below: this thread has counted the task, or a wait of the task was linked since, under the graph's mutex.
bool LeftLocks::has(const TaskCore& task) {
  Operations& operations = Operations::instance();
  if (operations.left_count.load(std::memory_order_relaxed) == 0) return false;
  MutexLock lock(operations.mutex);
  return operations.left.contains(&task);
}

const TaskCore* LeftLocks::task_of(std::uint64_t operation) {
  const Known known = Operations::instance().find(operation);
  return known.has_ended ? known.task : nullptr;
}

void LeftLocks::publish_next(const TaskCore& task) {
  Operations& operations = Operations::instance();
  if (operations.left_count.load(std::memory_order_relaxed) == 0) return;
  MutexLock lock(operations.mutex);
  const auto found = operations.left.find(&task);
  if (found == operations.left.end()) return;
  operations.by_id.erase(found->second);
  operations.left.erase(found);
  operations.left_count.store(operations.left.size(), std::memory_order_relaxed);
}

// Other parts of the parent may already wait for these locks, and can have them now.
void Operation::pass_locks_to_parent() const noexcept {
  const std::uint64_t whole = parent_->id();
  {
    Parts& parts = Parts::instance();
    MutexLock lock(parts.mutex);
    const std::uint32_t locks =
        parts.pass_on(id(), locks_held_.exchange(0, std::memory_order_relaxed), whole);
    if (locks == 0) return;
    parent_->forget_known_locks();
    parent_->locks_held_.fetch_add(locks, std::memory_order_relaxed);
  }
  WaitGraph::instance().locks_passed_on(whole);
}

void Operation::forget_known_lock(std::uint64_t lock, std::uint32_t held) const {
  if (held >= kKnownLocks) return;  // not known
  for (std::uint32_t i = 0; i <= held; ++i) {
    if (known_locks_[i].load(std::memory_order_relaxed) != lock) continue;
    const std::uint64_t last = known_locks_[held].load(std::memory_order_relaxed);
    known_locks_[i].store(last, std::memory_order_relaxed);
    return;
  }
  forget_known_locks();
}

std::uint64_t owner_of_part(std::uint64_t id) {
  Parts& parts = Parts::instance();
  MutexLock lock(parts.mutex);
  auto found = parts.ended.find(id);
  while (found != parts.ended.end()) {
    id = found->second.whole;
    found = parts.ended.find(id);
  }
  return id;
}

std::size_t parts_with_locks() {
  Parts& parts = Parts::instance();
  MutexLock lock(parts.mutex);
  return parts.ended.size() + parts.released.size();
}

// Each of the ended parts through which the lock has passed counts it.
void Operation::count_release_of_part(std::uint64_t id) const {
  Parts& parts = Parts::instance();
  MutexLock lock(parts.mutex);
  auto found = parts.ended.find(id);
  while (found != parts.ended.end()) {
    id = found->second.whole;
    if (--found->second.locks == 0) parts.ended.erase(found);
    found = parts.ended.find(id);
  }
  if (is(id)) {
    locks_held_.fetch_sub(1, std::memory_order_relaxed);
  } else if ((id & kPartBit) != 0) {
    ++parts.released[id];
  }
}

Scheduler* Operation::scheduler() const {
  if (scheduler_ != nullptr) return scheduler_;
  return task_ != nullptr ? &task_->owner().scheduler() : nullptr;
}

const Operation& Operation::current() { return CurrentTaskScope::current(); }

std::string operation_name(std::uint64_t id) {
  if (id == 0) return "somebody";
  id = owner_of(id);
  Operations& operations = Operations::instance();
  {
    MutexLock lock(operations.mutex);  // as long as the task is used
    const auto found = operations.by_id.find(id);
    if (found != operations.by_id.end() && found->second.task != nullptr) {
      return name_of(*found->second.task);
    }
  }
  return "thread " + std::to_string(id & kThreadMask);
}

const TaskCore* task_of_operation(std::uint64_t id) { return Operations::instance().find(id).task; }

std::uint64_t inline_run_of(std::uint64_t id) { return Operations::instance().find(id).inline_run; }

Scheduler* scheduler_that_resumes(std::uint64_t id) {
  Operations& operations = Operations::instance();
  MutexLock lock(operations.mutex);  // as long as the task is used
  const auto found = operations.by_id.find(id);
  if (found == operations.by_id.end() || found->second.has_ended) return nullptr;
  const Known& known = found->second;
  if (known.inline_run != 0) return nullptr;  // it has the thread of its run
  if (known.task == nullptr) return known.scheduler;
  // A done task does not run again, and its owner may be destroyed. Its lock belongs to an unknown
  // thread.
  if (known.task->done() || !known.task->operations().is_coroutine) return nullptr;
  return &known.task->owner().scheduler();
}

}  // namespace keyway::detail
