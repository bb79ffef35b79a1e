// A record in flight, as its task holds it. If it goes without having been settled, it was dropped.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>

#include "stream/pipeline_engine.h"

namespace keyway {

// Groups that are no record's key begin with this byte.
inline constexpr char kNoText = '\x01';
inline constexpr std::string_view kUnorderedGroup = "\x01unordered";

class Pipeline::Engine::Measured {
 public:
  Measured(Engine& engine, TimePoint queued) : engine_(engine), began_(engine.handling_.begin()) {
    if (began_ != TimePoint()) engine_.waiting_.add(began_ - queued);
  }
  ~Measured() {
    if (began_ != TimePoint()) engine_.handling_.end(began_);
  }
  Measured(const Measured&) = delete;
  Measured& operator=(const Measured&) = delete;

 private:
  Engine& engine_;
  const TimePoint began_;
};

// While one exists, run_until() does not return. False: it has returned, or is about to.
class Pipeline::Engine::Storing {
 public:
  explicit Storing(Engine& engine) : engine_(engine) {
    // seq_cst, as the other side: either this sees closed_, or end_if_quiet() sees the count.
    engine_.storing_.fetch_add(1);
    open_ = !engine_.closed_;
  }
  ~Storing() {
    if (engine_.storing_.fetch_sub(1) == 1 && engine_.closed_) engine_.wake();
  }
  Storing(const Storing&) = delete;
  Storing& operator=(const Storing&) = delete;

  explicit operator bool() const { return open_; }

 private:
  Engine& engine_;
  bool open_;
};

// The value of a record's task. Its destructor tells the pump that a task of the key has ended, and wakes it.
// The executor destroys it after the task has given its permit back, so the pump finds room for the key's next record.
class Pipeline::Engine::TaskEnd {
 public:
  static constexpr bool kDestructorIsKeyways = true;

  TaskEnd(Engine& engine, std::size_t key) : engine_(&engine), key_(key) {}
  TaskEnd(TaskEnd&& other) noexcept
      : engine_(std::exchange(other.engine_, nullptr)), key_(other.key_) {}
  TaskEnd& operator=(TaskEnd&&) = delete;
  ~TaskEnd() {
    if (engine_ == nullptr) return;
    engine_->ended_keys_.ended(key_);
    engine_->wake();
  }

 private:
  Engine* engine_;
  std::size_t key_;  // the hash of the task's group
};

class Pipeline::Engine::Item {
 public:
  // Takes the record out of `held`.
  Item(Engine& engine, std::shared_ptr<Partition> partition, std::size_t key, Partition::Held& held)
      : engine_(&engine),
        partition_(std::move(partition)),
        key_(key),
        entry_(held.entry),
        since_(held.since),
        record_(std::move(held.record)) {}
  Item(Item&& other) noexcept
      : engine_(std::exchange(other.engine_, nullptr)),
        partition_(std::move(other.partition_)),
        key_(other.key_),
        entry_(other.entry_),
        since_(other.since_),
        record_(std::move(other.record_)) {}
  Item& operator=(Item&&) = delete;
  ~Item() {
    if (engine_ != nullptr) engine_->left_unsettled(*this);
  }

  Partition& partition() { return *partition_; }
  std::shared_ptr<Partition> share_partition() { return std::move(partition_); }
  Ledger::Entry* entry() { return entry_; }  // null: it was settled when it was read
  TimePoint since() const { return since_; }
  Record& record() { return record_; }
  std::size_t key() const { return key_; }

  // REQUIRES: the task wakes the pump afterwards, by its TaskEnd or, if it goes on, by wake().
  void settle(Ledger::State state) {
    if (entry_ != nullptr) entry_->settle(state);
    engine_->bytes_.fetch_sub(record_.value.size());
    std::exchange(engine_, nullptr)->count_out(*partition_);
  }

 private:
  Engine* engine_;
  std::shared_ptr<Partition> partition_;
  std::size_t key_;  // the hash of its group
  Ledger::Entry* entry_;
  TimePoint since_;  // when it was read
  Record record_;
};

}  // namespace keyway
