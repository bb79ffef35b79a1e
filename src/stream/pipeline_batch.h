// How records come together that are handled at once.
#pragma once

#include <coroutine>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "keyway/batch.h"
#include "stream/pipeline_item.h"

namespace keyway {

struct Pipeline::Engine::Tried {
  Item item;
  Tries tries;
  TimePoint queued;
};

// A record that has its turn, and waits for its outcome. It lives in its task, which keeps the engine alive.
//
// The first member of a batch sets the timer of the linger. The timer is the member's own: it is set before the member is in
// the line, where another thread may resume it at any moment, and the member waits for fire() before its task goes on. So
// neither a timer nor a call of the line outlives the run.
class Pipeline::Engine::BatchMember final : private Timer {
 public:
  BatchMember(BatchLine& line, Partition& of, Batch::Member member)
      : partition(of), seen(member), line_(line) {}
  ~BatchMember();

  bool has_timer() const { return has_timer_; }
  void set_timer();
  void resume() { resumption.post(coroutine, *context); }  // it may end at once

  Partition& partition;
  const Batch::Member seen;
  std::optional<Outcome> outcome;  // none: the record was not wanted any more when its batch began
  bool is_overdue = false;         // its timer has fired; guarded by the line's mutex
  std::coroutine_handle<> coroutine;
  const detail::TaskContext* context = nullptr;
  detail::Resumption resumption;

 private:
  void fire() override;

  BatchLine& line_;
  bool has_timer_ = false;
};

// Batches of distinct keys: a record that has its turn joins. A batch is sent when it is full, or when its first member has
// waited for the linger.
class Pipeline::Engine::BatchLine {
 public:
  explicit BatchLine(Engine& engine) : engine_(engine) {}

  struct Join {
    bool await_ready() const noexcept { return false; }
    template <class Promise>
    void await_suspend(std::coroutine_handle<Promise> coroutine) {
      member->coroutine = coroutine;
      member->context = &coroutine.promise().context();
      line->add(*member);  // may resume, and end, this awaiter
    }
    void await_resume() const noexcept {}

    BatchLine* line;
    BatchMember* member;
  };
  // Resumes the caller when its member has an outcome, or its partition is dropped.
  Join join(BatchMember* member) { return {this, member}; }

  // Resumes the members whose partition is dropped, and sends the others as a batch. By the pump, after it has dropped
  // partitions.
  void let_dropped_go() KEYWAY_EXCLUDES(mutex_);

 private:
  friend class BatchMember;
  using Members = std::vector<BatchMember*>;

  void add(BatchMember& member) KEYWAY_EXCLUDES(mutex_);
  void linger_is_over(BatchMember& member) KEYWAY_EXCLUDES(mutex_);
  void send(Members members);

  Engine& engine_;
  Mutex<LockRank::kBatchLine> mutex_;
  Members waiting_ KEYWAY_GUARDED_BY(mutex_);
};

// Of one key: the pump adds records, and posts a visit for each; a visit takes what has come together, and many find
// nothing left.
class Pipeline::Engine::KeyBacklog {
 public:
  void add(const std::string& group, Item item) KEYWAY_EXCLUDES(mutex_);
  // The last one, if it is still there. By who has added it, and before any other is added.
  std::optional<Item> take_back(const std::string& group) KEYWAY_EXCLUDES(mutex_);
  std::deque<Item> take(const std::string& group, std::size_t most) KEYWAY_EXCLUDES(mutex_);

 private:
  Mutex<> mutex_;
  std::map<std::string, std::deque<Item>, std::less<>> items_ KEYWAY_GUARDED_BY(mutex_);
};

}  // namespace keyway
