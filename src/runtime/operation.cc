#include "keyway/detail/operation.h"

#include <atomic>
#include <unordered_map>

#include <unistd.h>

#include "base/mutex.h"
#include "keyway/detail/task_core.h"
#include "runtime/current_task.h"

namespace keyway::detail {

namespace {

// An id is a serial number and the thread it was drawn on: the kernel's thread ids have 22 bits.
constexpr int kThreadBits = 22;
constexpr std::uint64_t kThreadMask = (std::uint64_t{1} << kThreadBits) - 1;

// Of tasks whose operations have drawn an id, and live.
struct Names {
  static Names& instance() {
    static Names* names = new Names;
    return *names;
  }
  Mutex<> mutex;
  std::unordered_map<std::uint64_t, const TaskCore*> tasks KEYWAY_GUARDED_BY(mutex);
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

void Operation::draw_id() const {
  id_ = next_id();
  if (task_ == nullptr) return;
  Names& names = Names::instance();
  MutexLock lock(names.mutex);
  names.tasks.emplace(id_, task_);
}

void TaskOperation::forget_name() {
  if (task() == nullptr) return;
  Names& names = Names::instance();
  MutexLock lock(names.mutex);
  names.tasks.erase(id());
}

Scheduler* Operation::scheduler() const {
  if (scheduler_ != nullptr) return scheduler_;
  return task_ != nullptr ? &task_->owner().scheduler() : nullptr;
}

const Operation& Operation::current() { return CurrentTaskScope::current(); }

std::string operation_name(std::uint64_t id) {
  if (id == 0) return "somebody";
  Names& names = Names::instance();
  {
    MutexLock lock(names.mutex);
    const auto found = names.tasks.find(id);
    if (found != names.tasks.end()) return name_of(*found->second);
  }
  return "thread " + std::to_string(id & kThreadMask);
}

Scheduler* scheduler_that_resumes(std::uint64_t id) {
  Names& names = Names::instance();
  MutexLock lock(names.mutex);
  const auto found = names.tasks.find(id);
  // A done task does not run again, and its owner may be destroyed. Its lock belongs to an unknown
  // thread.
  if (found == names.tasks.end() || found->second->done()) return nullptr;
  if (!found->second->operations().is_coroutine) return nullptr;
  return &found->second->owner().scheduler();
}

}  // namespace keyway::detail
