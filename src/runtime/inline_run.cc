#include "keyway/detail/inline_run.h"

#include <optional>

#include "lanes/ready_queue.h"
#include "runtime/thread_wakeup.h"
#include "runtime/wait_graph.h"

namespace keyway::detail {

namespace {

// The coroutine, as the target of its thread's wait.
class Part final : public WantedWork {
 public:
  explicit Part(const Operation& operation) : operation_(operation.id()) {}
  Scheduler* scheduler() const override { return nullptr; }
  std::uint64_t operation() const override { return operation_; }
  std::string name() const override { return "a coroutine that it runs"; }

 private:
  const std::uint64_t operation_;  // the coroutine may be gone before the run
};

}  // namespace

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
  std::optional<Part> part;
  WaitGraph::Edge edge;
};

InlineRun::InlineRun(Scheduler& timers) : timers_(timers), state_(std::make_shared<State>()) {}

InlineRun::~InlineRun() {
  if (state_->part) WaitGraph::instance().end(state_->edge);
}

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
  WaitGraph::Edge& edge = state_->edge;
  edge.operation = &Operation::current();
  edge.waiter = edge.operation->task();
  edge.holds_permit = edge.waiter != nullptr && edge.waiter->holds_permits();
  edge.work = &state_->part.emplace(part);
  edge.block_this_thread();
  part.is_awaited = true;
  (void)WaitGraph::instance().begin_unchecked(edge);  // the coroutine's own waits are checked
}

void InlineRun::wait() {
  while (true) {
    while (Runnable* item = state_->ready.pop()) {
      Turn turn;
      item->run(turn);
      if (turn.again != nullptr) post(*turn.again);
    }
    if (state_->over.load(std::memory_order_acquire)) return;
    const WaitEnd end = block(*state_, {.scheduler = &timers_});
    KEYWAY_CHECK(end == WaitEnd::kDone,
                 "a coroutine inside a task waits, but the simulation has nothing more to run");
  }
}

}  // namespace keyway::detail
