#include "keyway/detail/inline_run.h"

#include "lanes/ready_queue.h"
#include "runtime/thread_wakeup.h"
#include "runtime/wait_graph.h"

namespace keyway::detail {

struct InlineRun::State {
  // Waitable: there is something to run, or the coroutine has ended.
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
};

namespace {

// The coroutine, as what its thread waits for.
class Part final : public WantedWork {
 public:
  explicit Part(const Operation& operation) : operation_(operation) {}
  Scheduler* scheduler() const override { return nullptr; }
  bool includes(const Operation& waiter, const TaskCore*, const WantedWork*) const override {
    return waiter.is_part_of(operation_);
  }
  std::string name() const override { return "a coroutine that it runs"; }

 private:
  const Operation& operation_;
};

}  // namespace

InlineRun::InlineRun(Scheduler& timers) : timers_(timers), state_(std::make_unique<State>()) {}
InlineRun::~InlineRun() = default;

void InlineRun::post(Runnable& runnable) {
  state_->ready.push(runnable);
  state_->kick();
}

std::coroutine_handle<> InlineRun::done() noexcept {
  state_->over.store(true, std::memory_order_release);
  state_->kick();
  return std::noop_coroutine();
}

void InlineRun::wait(const Operation& operation) {
  const Part part(operation);
  WaitGraph::Edge edge;
  edge.operation = &Operation::current();
  edge.waiter = edge.operation->task();
  edge.holds_permit = edge.waiter != nullptr && edge.waiter->holds_permits();
  edge.work = &part;
  edge.thread = Scheduler::current();
  WaitGraph::instance().begin_unchecked(edge);  // the coroutine's own waits are checked
  while (true) {
    while (Runnable* item = state_->ready.pop()) {
      Turn turn;
      item->run(turn);
      if (turn.again != nullptr) post(*turn.again);
    }
    if (state_->over.load(std::memory_order_acquire)) break;
    const WaitEnd end = block(*state_, {.scheduler = &timers_});
    KEYWAY_CHECK(end == WaitEnd::kDone,
                 "a coroutine inside a task waits, but the simulation has nothing more to run");
  }
  WaitGraph::instance().end(edge);
}

}  // namespace keyway::detail
