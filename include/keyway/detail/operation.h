// Who does something, as far as locks and waits are concerned: a thread outside of tasks, a plain task, a
// coroutine, or one branch of it under when_all(). What a lock belongs to.
//
// A part of an operation (a branch, a task that is run inline, what sync_wait() runs) has it as its parent, which
// goes on only when the part has ended.
#pragma once

#include <cstdint>
#include <string>

namespace keyway {

class Scheduler;

namespace detail {

class TaskCore;

// Thread safety: id() by the operation itself; the rest by anybody while it waits.
class Operation {
 public:
  constexpr explicit Operation(const Operation* parent = nullptr, TaskCore* task = nullptr,
                               Scheduler* scheduler = nullptr)
      : parent_(parent), task_(task), scheduler_(scheduler) {}
  // A copy is another operation, at the same place.
  constexpr Operation(const Operation& other)
      : Operation(other.parent_, other.task_, other.scheduler_) {}
  Operation& operator=(const Operation&) = delete;

  const Operation* parent() const { return parent_; }
  TaskCore* task() const { return task_; }  // whose permits it runs under; null: none
  Scheduler* scheduler() const;             // whose thread it is on; null: none of Keyway's

  // Never 0, and never given out again in this process.
  std::uint64_t id() const {
    if (id_ == 0) [[unlikely]]
      draw_id();
    return id_;
  }
  bool is(std::uint64_t id) const { return id_ == id && id != 0; }
  // Whether it is the operation of this id, or a part of it.
  bool is_within(std::uint64_t id) const {
    for (const Operation* one = this; one != nullptr; one = one->parent_) {
      if (one->is(id)) return true;
    }
    return false;
  }

  bool is_part_of(const Operation& whole) const {
    for (const Operation* one = this; one != nullptr; one = one->parent_) {
      if (one == &whole) return true;
    }
    return false;
  }

  // Of the innermost one on this thread.
  static const Operation& current();

  // How many locks it took and has not released itself. Only kept for threads: what a thread passes on stays
  // counted here.
  mutable std::uint32_t locks_held = 0;
  // A thread waits for this operation: in sync_wait(), or because it runs it inline.
  mutable bool is_awaited = false;
  // For a branch of when_any() or with_timeout(): how many branches that has. 0: it is no such branch.
  std::uint32_t race_branches = 0;

  // Whether it has an id. An operation without one has never asked for a lock.
  bool has_id() const { return id_ != 0; }

 private:
  void draw_id() const;

  const Operation* parent_;
  TaskCore* task_;
  Scheduler* scheduler_;
  mutable std::uint64_t id_ = 0;
};

// That of a task: as long as it lives, its id has the task's name.
class TaskOperation final : public Operation {
 public:
  using Operation::Operation;
  TaskOperation(const TaskOperation& other) = default;
  TaskOperation& operator=(const TaskOperation&) = delete;
  ~TaskOperation() {
    if (has_id()) [[unlikely]]
      forget_name();
  }

 private:
  void forget_name();
};

// For people: the task's name, or the thread on which the operation drew its id.
std::string operation_name(std::uint64_t id);

// The scheduler whose thread the operation needs to go on, if it is a coroutine task; otherwise
// null.
Scheduler* scheduler_that_resumes(std::uint64_t id);

}  // namespace detail
}  // namespace keyway
