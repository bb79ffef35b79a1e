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

// One that has its turn, and waits for its outcome. It lives in its task.
struct Pipeline::Engine::BatchMember {
  Partition* partition = nullptr;
  Batch::Member seen;
  std::optional<Outcome> outcome;  // none: it was not wanted any more when its batch began
  std::coroutine_handle<> coroutine;
  const detail::TaskContext* context = nullptr;
  detail::Resumption resumption;
};

// Of distinct keys: whoever has its turn joins. A batch goes when it is full, or when its first member has waited for
// the linger.
class Pipeline::Engine::BatchLine final : private Timer {
 public:
  explicit BatchLine(Engine& engine) : engine_(engine) {}
  ~BatchLine() { engine_.scheduler_.cancel_timer(*this); }

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
  // Goes on when its member has an outcome.
  Join join(BatchMember* member) { return {this, member}; }

 private:
  void add(BatchMember& member) KEYWAY_EXCLUDES(mutex_);
  void fire() override KEYWAY_EXCLUDES(mutex_);
  void send(std::vector<BatchMember*> members);

  Engine& engine_;
  Mutex<LockRank::kBatchLine> mutex_;
  std::vector<BatchMember*> waiting_ KEYWAY_GUARDED_BY(mutex_);
  // When the first of those who wait has waited long enough. A timer that fires earlier was set for others.
  TimePoint due_ KEYWAY_GUARDED_BY(mutex_){};
  bool timer_is_set_ KEYWAY_GUARDED_BY(mutex_) = false;
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
