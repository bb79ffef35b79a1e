#include "keyway/detail/inline_run.h"

#include <optional>

#include "lanes/ready_queue.h"
#include "runtime/linked_wait.h"
#include "runtime/thread_wakeup.h"
#include "runtime/wait_graph.h"

namespace keyway::detail {

struct InlineRun::State {
  // Waitable: done() is true while there is an item to run, or when the coroutine has ended.
  bool done() const { return over.load(std::memory_order_acquire) || !ready.empty(); }
  std::uint32_t announce() { return changes.load(std::memory_order_seq_cst); }
  const Atomic<std::uint32_t>& word() const { return changes; }
  void kick() {
    changes.fetch_add(1, std::memory_order_seq_cst);
    futex_wake_all(changes);
  }

  ReadyQueue ready;
  Atomic<bool> over{false};
  Atomic<std::uint32_t> changes{0};
  std::optional<CoroutineOnThread> part;
  PartWait wait;
  TaskCore* holder = nullptr;  // the task whose permits the coroutine runs under
};

InlineRun::InlineRun(Scheduler& timers) : timers_(timers), state_(std::make_shared<State>()) {}

// A call of post() may keep the state a little longer, but not the operations that the edges refer to.
InlineRun::~InlineRun() { state_->wait.end(); }

void InlineRun::post(Runnable& runnable) {
  const std::shared_ptr<State> state = state_;
  state->ready.push(runnable);
  state->kick();
}

std::coroutine_handle<> InlineRun::done() noexcept {
  const std::shared_ptr<State> state = state_;
  state->over.store(true, std::memory_order_release);
  state->kick();
  return std::noop_coroutine();
}

void InlineRun::begin(const Operation& part) {
  const Operation& whole = Operation::current();
  part.is_awaited = true;
  // Not checked: the coroutine's own waits are.
  (void)state_->wait.begin({.operation = whole,
                            .work = &state_->part.emplace(part),
                            .blocks = true,
                            .can_refuse = false});
  state_->holder = WaitingTasks::of(whole, /*blocks=*/true).holder;
}

void InlineRun::wait() {
  while (true) {
    while (Runnable* item = state_->ready.pop()) {
      Turn turn;
      item->run(turn);
      if (turn.again != nullptr) post(*turn.again);
    }
    if (state_->over.load(std::memory_order_acquire)) return;
    sleep_until_posted();
  }
}

// While the coroutine waits, its task may give permits back: the check of the wait knows that the return needs a thread.
// A coroutine that only sleeps is not checked, so the task keeps them for other branches, too.
void InlineRun::sleep_until_posted() {
  std::unique_ptr<TaskWait> idle;
  TaskCore* const holder = state_->holder;
  if (holder != nullptr && WaitGraph::instance().has_waits(state_->part->operation())) {
    idle = holder->owner().begin_sleep(*holder, 1 + ThreadContext::Starter::count(holder));
  }
  const auto block_until_done = [&](auto& target) {
    const WaitEnd end = block(target, {.scheduler = &timers_});
    KEYWAY_CHECK(end == WaitEnd::kDone,
                 "a coroutine inside a task waits, but the simulation has nothing more to run");
  };
  block_until_done(*state_);
  if (idle == nullptr) return;
  ThreadWakeup back;
  idle->end(back);
  block_until_done(back);
}

}  // namespace keyway::detail
