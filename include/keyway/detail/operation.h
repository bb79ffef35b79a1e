// Who does something, as far as locks and waits are concerned: a thread outside of tasks, a plain task, a
// coroutine, or one branch of it under when_all(). What a lock belongs to.
//
// A part of an operation (a branch, what sync_wait() runs, a task that its submitter runs, a listener's call) has it as
// its parent, which goes on only when the part has ended. Then the parent has the locks that the part has not released,
// but for those of a listener.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "keyway/detail/atomic.h"

namespace keyway {

class Scheduler;

namespace detail {

class TaskCore;

// The operation that has the locks of the part `id`: that one, or the one that it was a part of.
std::uint64_t owner_of_part(std::uint64_t id);
// The number of ended parts whose locks are held: for tests.
std::size_t parts_with_locks();

// In the id of an operation whose locks pass to the one that it is a part of.
inline constexpr std::uint64_t kPartBit = std::uint64_t{1} << 63;

// The operation that has the locks of the operation `id`.
inline std::uint64_t owner_of(std::uint64_t id) {
  return (id & kPartBit) == 0 ? id : owner_of_part(id);
}

// Thread safety: every method from any thread; what changes locks_held() only by the operation itself.
class Operation {
 public:
  constexpr explicit Operation(const Operation* parent = nullptr, TaskCore* task = nullptr,
                               Scheduler* scheduler = nullptr)
      : parent_(parent), task_(task), scheduler_(scheduler) {}
  // A copy is another operation, at the same place.
  constexpr Operation(const Operation& other)
      : Operation(other.parent_, other.task_, other.scheduler_) {
    confined_ = other.confined_;
    passes_locks_on_ = other.passes_locks_on_;
  }
  Operation& operator=(const Operation&) = delete;

  const Operation* parent() const { return parent_; }
  TaskCore* task() const { return task_; }  // whose permits it runs under; null: none
  Scheduler* scheduler() const;             // whose thread it is on; null: none of Keyway's

  // Never 0, and never given out again in this process.
  std::uint64_t id() const {
    const std::uint64_t id = id_.load(std::memory_order_relaxed);
    return id != 0 ? id : draw_id();
  }
  // The same for an operation that is about to ask for a lock. From now on the operations that it is a part of count as
  // ones whose parts may hold locks.
  std::uint64_t id_for_lock() const {
    for (const Operation* one = parent_; one != nullptr; one = one->parent_) {
      one->parts_lock_.store(true, std::memory_order_relaxed);
    }
    return id();
  }
  // Whether a part of it may hold a lock. relaxed: the part has taken the lock after id_for_lock(), and a wait for the
  // lock was linked after that.
  bool parts_lock() const { return parts_lock_.load(std::memory_order_relaxed); }
  bool is(std::uint64_t id) const { return id != 0 && id_.load(std::memory_order_relaxed) == id; }
  // Whether it is the operation that has the locks of this id, or a part of it.
  bool is_within(std::uint64_t id) const {
    const std::uint64_t owner = owner_of(id);
    for (const Operation* one = this; one != nullptr; one = one->parent_) {
      if (one->is(owner)) return true;
    }
    return false;
  }

  bool is_part_of(const Operation& whole) const {
    for (const Operation* one = this; one != nullptr; one = one->parent_) {
      if (one == &whole) return true;
    }
    return false;
  }

  // How many locks it took, or has from a part, and has not released itself: at least as many as it
  // holds, because another operation may have released some. (Those of a part are known then: see
  // pass_locks_on().)
  std::uint32_t locks_held() const { return locks_held_.load(std::memory_order_relaxed); }
  // It has taken the lock with this id.
  void count_lock(std::uint64_t lock) const {
    const std::uint32_t held = locks_held();
    if (held < kKnownLocks) [[likely]] {
      known_locks_[held].store(lock, std::memory_order_relaxed);
    } else {
      forget_known_locks();
    }
    locks_held_.store(held + 1, std::memory_order_relaxed);  // no other thread writes it now
  }
  // This operation has released a lock that the operation `id` took.
  void count_release(std::uint64_t id, std::uint64_t lock) const {
    if (is(id)) [[likely]] {
      const std::uint32_t held = locks_held() - 1;
      if (held > 0) forget_known_lock(lock, held);
      locks_held_.store(held, std::memory_order_relaxed);
    } else if ((id & kPartBit) != 0) {
      count_release_of_part(id);
    }
  }
  static constexpr std::uint32_t kKnownLocks = 4;
  using LockIds = std::array<std::uint64_t, kKnownLocks>;
  // Writes the ids of the locks that it took and has not released itself to the beginning of `ids`, and returns their number.
  // None if they are not known: the operation has held more than kKnownLocks, or has some from a part.
  std::optional<std::uint32_t> known_locks(LockIds& ids) const {
    const std::uint32_t held = locks_held();
    if (held == 0) return 0;
    if (held > kKnownLocks || known_locks_[0].load(std::memory_order_relaxed) == 0) {
      return std::nullopt;
    }
    for (std::uint32_t i = 0; i < held; ++i) {
      ids[i] = known_locks_[i].load(std::memory_order_relaxed);
    }
    return held;
  }
  // For a task that its submitter runs. REQUIRES: it has no id.
  void set_passes_locks_on() { passes_locks_on_ = true; }
  // The operation has ended. If it is a part of another one, that one now has the locks that it has not
  // released.
  void pass_locks_on() const noexcept {
    if (locks_held() > 0 && is_part()) [[unlikely]]
      pass_locks_to_parent();
  }

  // Of the innermost one on this thread.
  static const Operation& current();

  // A thread waits for this operation: in sync_wait(), or because it runs it inline.
  mutable bool is_awaited = false;
  // Whether it runs on the thread of an InlineRun only: its branches do not run at the same time.
  bool is_confined() const { return confined_; }
  void confine() { confined_ = true; }

  // For a branch of when_any() or with_timeout(): how many branches that has. 0: it is no such branch.
  std::uint32_t race_branches = 0;
  // Whether the end of another branch may end its awaits.
  bool is_in_race() const {
    for (const Operation* one = this; one != nullptr; one = one->parent_) {
      if (one->race_branches > 0) return true;
    }
    return false;
  }

  // Whether it has an id. An operation without one has never asked for a lock.
  bool has_id() const { return id_.load(std::memory_order_relaxed) != 0; }

 private:
  // Until it holds no lock, which of its locks it holds is not known.
  void forget_known_locks() const { known_locks_[0].store(0, std::memory_order_relaxed); }
  // `held`: the number of locks without this one.
  void forget_known_lock(std::uint64_t lock, std::uint32_t held) const;
  std::uint64_t draw_id() const;
  const Operation& inline_run() const;  // REQUIRES: is_confined()
  void count_release_of_part(std::uint64_t id) const;
  void pass_locks_to_parent() const noexcept;
  // Of another operation of the same task, or outside of tasks; or a task that its submitter runs.
  bool is_part() const {
    return parent_ != nullptr && (parent_->task_ == task_ || passes_locks_on_);
  }

  const Operation* parent_;
  TaskCore* task_;
  Scheduler* scheduler_;
  bool confined_ = false;
  bool passes_locks_on_ = false;
  mutable Atomic<std::uint64_t> id_{0};
  mutable Atomic<std::uint32_t> locks_held_{0};
  mutable Atomic<bool> parts_lock_{false};
  // The ids of the first `locks_held_` locks; the first is 0 if they are not known.
  mutable std::array<Atomic<std::uint64_t>, kKnownLocks> known_locks_{};
};

// That of a task or of a coroutine: as long as it lives, its id has the task's name.
class TaskOperation final : public Operation {
 public:
  using Operation::Operation;
  TaskOperation(const TaskOperation& other) = default;
  TaskOperation& operator=(const TaskOperation&) = delete;
  ~TaskOperation() {
    if (has_id()) [[unlikely]]
      end();
  }

 private:
  void end();
};

// For people: the task's name, or the thread on which the operation drew its id.
std::string operation_name(std::uint64_t id);

// The task of a living operation with this id; null: none. Only to be compared.
const TaskCore* task_of_operation(std::uint64_t id);

// The scheduler whose thread the operation needs to go on, if it is a coroutine task; otherwise
// null.
Scheduler* scheduler_that_resumes(std::uint64_t id);

// For a coroutine in an InlineRun: the id of the run's operation, whose parts all run on one thread. Otherwise 0.
std::uint64_t inline_run_of(std::uint64_t id);

}  // namespace detail
}  // namespace keyway
