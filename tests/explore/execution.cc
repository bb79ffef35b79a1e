#include "explore/execution.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <thread>
#include <utility>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "explore/happens_before.h"
#include "explore/report.h"
#include "keyway/detail/operation.h"

namespace keyway::explore {
namespace {

using TimePoint = std::chrono::steady_clock::time_point;

struct ExploredThread {
  enum State : std::uint8_t { kReady, kSpinning, kBlocked, kFinished };

  State state = kFinished;
  const void* waits_on = nullptr;
  const char* waits_for = "";  // for people
  const std::function<bool()>* condition = nullptr;
  Deadline deadline;
  bool timed_out = false;
  int uninterrupted = 0;
  int lone_spins = 0;
  VectorClock clock;

  alignas(64) std::atomic<std::uint32_t> has_baton{0};
  std::thread thread;
};

long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value) {
  return syscall(SYS_futex, &word, operation | FUTEX_PRIVATE_FLAG, value, nullptr, nullptr, 0);
}
void wait_for_baton(std::atomic<std::uint32_t>& baton) {
  while (baton.load(std::memory_order_acquire) == 0) futex(baton, FUTEX_WAIT, 0);
  baton.store(0, std::memory_order_relaxed);
}
void give_baton(std::atomic<std::uint32_t>& baton) {
  baton.store(1, std::memory_order_release);
  futex(baton, FUTEX_WAKE, 1);
}

// All of it belongs to the thread that has the baton.
class Execution {
 public:
  Execution(const ScenarioOptions& options, Strategy& strategy)
      : options_(options), strategy_(strategy) {
    for (int i = 0; i < options_.threads; ++i) {
      threads_[static_cast<std::size_t>(i)].thread = std::thread([this, i] { work(i); });
      threads_[static_cast<std::size_t>(i)].thread.detach();  // ends with the process
    }
  }

  void run(Scenario& scenario) {
    scenario_ = &scenario;
    steps_ = 0;
    choices_ = 0;
    report->deviation_count = 0;
    now_ = TimePoint(std::chrono::hours(1));
    released_.begin_execution();
    for (int i = 0; i < options_.threads; ++i) {
      ExploredThread& thread = threads_[static_cast<std::size_t>(i)];
      thread.state = ExploredThread::kReady;
      thread.uninterrupted = 0;
      thread.lone_spins = 0;
      thread.clock = {};
      thread.clock.times[kMainThread] = 1;
      thread.clock.times[static_cast<std::size_t>(i)] = 1;
    }
    const int first = next_thread(-1);
    give_baton(threads_[static_cast<std::size_t>(first)].has_baton);
    wait_for_baton(main_baton_);
    report->steps.fetch_add(steps_, std::memory_order_relaxed);
  }

  // The calling thread can go on, but another one may run first.
  void yield() {
    ExploredThread& me = current();
    if (me.uninterrupted > 0) return;
    count_step();
    for (ExploredThread& thread : threads_) {
      if (thread.state == ExploredThread::kSpinning) thread.state = ExploredThread::kReady;
    }
    pass_baton();
  }
  void spin() {
    ExploredThread& me = current();
    count_step();
    me.state = ExploredThread::kSpinning;
    pass_baton();
    me.state = ExploredThread::kReady;
  }
  // True if it was woken, false if it timed out.
  bool block(const void* on, const char* what, Deadline deadline,
             const std::function<bool()>* condition = nullptr) {
    ExploredThread& me = current();
    count_step();
    me.state = ExploredThread::kBlocked;
    me.waits_on = on;
    me.waits_for = what;
    me.deadline = deadline;
    me.condition = condition;
    me.timed_out = false;
    pass_baton();
    me.waits_on = nullptr;
    return !me.timed_out;
  }
  void wake(const void* waiting_on, bool all) {
    for (ExploredThread& thread : threads_) {
      if (thread.state != ExploredThread::kBlocked || thread.waits_on != waiting_on) continue;
      thread.state = ExploredThread::kReady;
      if (!all) return;
    }
  }
  void wake_if_condition_holds() {
    for (ExploredThread& thread : threads_) {
      const bool waits = thread.state == ExploredThread::kBlocked && thread.condition != nullptr;
      if (waits && (*thread.condition)()) thread.state = ExploredThread::kReady;
    }
  }

  ExploredThread& current() { return threads_[static_cast<std::size_t>(running_)]; }
  int running() const { return running_; }
  TimePoint now() const { return now_; }
  ReleasedClocks& released() { return released_; }
  const ScenarioOptions& options() const { return options_; }

 private:
  void work(int number);
  void count_step() {
    if (++steps_ > options_.max_steps) {
      fail(FailureKind::kEndless,
           "more than " + std::to_string(options_.max_steps) + " steps\n" + describe());
    }
  }

  // Lets the thread that the strategy chooses run, and returns when the calling one is chosen again.
  void pass_baton() {
    const int me = running_;
    const int next = next_thread(me);
    if (next == me) return;
    give_baton(threads_[static_cast<std::size_t>(next)].has_baton);
    wait_for_baton(threads_[static_cast<std::size_t>(me)].has_baton);
  }

  int next_thread(int me) {
    std::uint32_t can_run = ready();
    if (can_run == 0) can_run = spinning_threads(me);
    if (can_run == 0) can_run = first_to_time_out();
    if (can_run == 0) fail(FailureKind::kDeadlock, "no thread can run\n" + describe());
    int next = __builtin_ctz(can_run);
    if ((can_run & (can_run - 1)) != 0) {
      const Choice choice{
          .can_run = can_run, .running = me, .goes_on = me >= 0 && (can_run >> me & 1) != 0};
      next = strategy_.choose(choice);
      if (next != choice.by_default()) note_deviation(next);
      ++choices_;
    }
    ExploredThread& chosen = threads_[static_cast<std::size_t>(next)];
    if (chosen.state == ExploredThread::kBlocked) time_out(chosen);
    running_ = next;
    return next;
  }
  std::uint32_t ready() const {
    std::uint32_t can_run = 0;
    for (int i = 0; i < options_.threads; ++i) {
      const ExploredThread& thread = threads_[static_cast<std::size_t>(i)];
      const bool may_time_out = options_.times_out_any_time &&
                                thread.state == ExploredThread::kBlocked && thread.deadline;
      if (thread.state == ExploredThread::kReady || may_time_out) can_run |= 1U << i;
    }
    return can_run;
  }
  // A thread that spins while no other can run may give up by itself after a while. If it does not, it may wait
  // for another thread's timeout.
  std::uint32_t spinning_threads(int me) {
    constexpr int kLoneSpins = 2000;
    std::uint32_t can_run = 0;
    for (int i = 0; i < options_.threads; ++i) {
      ExploredThread& thread = threads_[static_cast<std::size_t>(i)];
      if (thread.state == ExploredThread::kSpinning) can_run |= 1U << i;
      if (i == me && thread.state == ExploredThread::kSpinning &&
          ++thread.lone_spins > kLoneSpins && first_to_time_out() != 0) {
        thread.lone_spins = 0;
        return 0;
      }
    }
    return can_run;
  }
  std::uint32_t first_to_time_out() const {
    int first = -1;
    for (int i = 0; i < options_.threads; ++i) {
      const ExploredThread& thread = threads_[static_cast<std::size_t>(i)];
      if (thread.state != ExploredThread::kBlocked || !thread.deadline) continue;
      if (first < 0 || *thread.deadline < *threads_[static_cast<std::size_t>(first)].deadline)
        first = i;
    }
    return first < 0 ? 0 : 1U << first;
  }
  void time_out(ExploredThread& thread) {
    now_ = std::max(now_, *thread.deadline);
    thread.timed_out = true;
    thread.state = ExploredThread::kReady;
  }
  void note_deviation(int next) {
    if (report->deviation_count < report->deviations.size()) {
      report->deviations[report->deviation_count++] = {choices_, static_cast<std::uint32_t>(next)};
    }
  }
  std::string describe() const {
    std::string text;
    for (int i = 0; i < options_.threads; ++i) {
      const ExploredThread& thread = threads_[static_cast<std::size_t>(i)];
      text += "  thread " + std::to_string(i) + ' ';
      switch (thread.state) {
        case ExploredThread::kReady:
          text += "can run\n";
          break;
        case ExploredThread::kSpinning:
          text += "spins\n";
          break;
        case ExploredThread::kFinished:
          text += "has returned\n";
          break;
        case ExploredThread::kBlocked:
          text += std::string("waits for ") + thread.waits_for + "\n";
          break;
      }
    }
    return text;
  }

  const ScenarioOptions options_;
  Strategy& strategy_;
  Scenario* scenario_ = nullptr;
  std::uint32_t steps_ = 0;
  std::uint32_t choices_ = 0;
  int running_ = -1;
  TimePoint now_{};
  ReleasedClocks released_;
  std::array<ExploredThread, kMaxThreads> threads_;
  std::atomic<std::uint32_t> main_baton_{0};
};

Execution* execution = nullptr;
// The calling thread is one of the explored ones.
constinit thread_local bool is_explored = false;

void Execution::work(int number) {
  // A thread draws its id once: before its first execution, so that all of them are alike.
  (void)keyway::detail::Operation::current().id();
  is_explored = true;
  ExploredThread& me = threads_[static_cast<std::size_t>(number)];
  while (true) {
    wait_for_baton(me.has_baton);
    scenario_->run(number);
    me.state = ExploredThread::kFinished;
    const bool all_finished = std::ranges::all_of(threads_, [](const ExploredThread& thread) {
      return thread.state == ExploredThread::kFinished;
    });
    if (all_finished) {
      running_ = -1;
      give_baton(main_baton_);
    } else {
      for (ExploredThread& thread : threads_) {
        if (thread.state == ExploredThread::kSpinning) thread.state = ExploredThread::kReady;
      }
      give_baton(threads_[static_cast<std::size_t>(next_thread(-1))].has_baton);
    }
  }
}

std::size_t me() { return static_cast<std::size_t>(execution->running()); }

void acquire(const void* address) {
  if (const VectorClock* clock = execution->released().find(address)) {
    execution->current().clock.join(*clock);
  }
}
void release(const void* address, bool keeps_others) {
  ExploredThread& thread = execution->current();
  VectorClock& clock = execution->released().make(address);
  if (keeps_others) {
    clock.join(thread.clock);
  } else {
    clock = thread.clock;
  }
  ++thread.clock.times[me()];
}

// The states of a lock.
constexpr std::uint32_t kFree = 0;
constexpr std::uint32_t kHeld = 1;
constexpr std::uint32_t kHeldQuietly = 2;  // neither taking it nor releasing it is a yield point

bool is_quiet(LockRank rank) {
  if (execution == nullptr) return false;
  const bool of_blocks = rank == LockRank::kBlockDepot || rank == LockRank::kSlabs;
  return of_blocks && !execution->options().explores_blocks;
}
std::uint32_t held_state(LockRank rank) { return is_quiet(rank) ? kHeldQuietly : kHeld; }

}  // namespace

void start_threads(const ScenarioOptions& options, Strategy& strategy) {
  execution = new Execution(options, strategy);
}
void execute(Scenario& scenario) { execution->run(scenario); }

// ---- hooks

void before_access(const void*) {
  if (is_explored) execution->yield();
}

void after_access(const void* address, Access access, std::memory_order order) {
  if (!is_explored) return;
  const bool acquires = order != std::memory_order_relaxed && order != std::memory_order_release;
  const bool releases = order == std::memory_order_release || order == std::memory_order_acq_rel ||
                        order == std::memory_order_seq_cst;
  if (access != Access::kStore && acquires) acquire(address);
  if (access == Access::kLoad) return;
  const bool continues = access == Access::kReadModifyWrite;
  if (releases) {
    release(address, continues);
  } else if (!continues) {
    execution->released().erase(address);  // a relaxed store ends what was released before
  }
}

void forget(const void* address) {
  if (execution != nullptr) execution->released().erase(address);
}

void lock(std::uint32_t& held, LockRank rank) {
  if (is_explored) {
    if (!is_quiet(rank)) execution->yield();
    while (held != kFree) execution->block(&held, name_of(rank), {});
    acquire(&held);
  }
  if (held != kFree) {
    fail(FailureKind::kDeadlock,
         std::string("outside of the threads, ") + name_of(rank) + " is still held");
  }
  held = held_state(rank);
}

bool try_lock(std::uint32_t& held, LockRank rank) {
  if (is_explored && !is_quiet(rank)) execution->yield();
  if (held != kFree) return false;
  if (is_explored) acquire(&held);
  held = held_state(rank);
  return true;
}

// Not a yield point, as a rule: another thread can run before the next operation on shared state, and until then
// this one touches nothing that others see.
void unlock(std::uint32_t& held) {
  const bool quiet = std::exchange(held, kFree) == kHeldQuietly;
  if (!is_explored) return;
  release(&held, /*keeps_others=*/false);
  execution->wake(&held, /*all=*/true);
  if (!quiet && execution->options().yields_after_unlock) execution->yield();
}

void announce_wait(const void*) {
  if (!is_explored)
    fail(FailureKind::kDeadlock, "outside of the threads, a condition is waited for");
}
void wait_for_notify(const void* condition, Deadline deadline) {
  execution->block(condition, "a condition variable", deadline);
}
void notify(const void* condition, bool all) {
  if (!is_explored) return;
  execution->yield();
  execution->wake(condition, all);
}

bool wait_on_word(const void* word, Deadline deadline) {
  if (!is_explored) fail(FailureKind::kDeadlock, "outside of the threads, a futex is waited for");
  return execution->block(word, "a futex", deadline);
}
void wake_word(const void* word, bool all) {
  if (!is_explored) return;
  execution->yield();
  execution->wake(word, all);
}

void spin() {
  if (is_explored) execution->spin();
}

// ---- for scenarios

void fail(FailureKind kind, const std::string& message) {
  report->failure = kind;
  std::strncpy(report->message, message.c_str(), sizeof report->message - 1);
  end_child();
}

void require(bool condition, const char* message) {
  if (!condition) fail(FailureKind::kRequirement, message);
}

TimePoint now() { return execution->now(); }

void yield() {
  if (is_explored) execution->yield();
}

void wait_until(const char* what, const std::function<bool()>& holds, Deadline deadline) {
  if (!is_explored) {
    if (!holds())
      fail(FailureKind::kDeadlock, std::string("outside of the threads, one waits for ") + what);
    return;
  }
  execution->yield();
  while (!holds()) {
    if (!execution->block(&holds, what, deadline, &holds)) return;
  }
}
void changed() {
  if (is_explored) execution->wake_if_condition_holds();
}

int this_thread() { return is_explored ? execution->running() : -1; }

void begin_uninterrupted() {
  if (is_explored) ++execution->current().uninterrupted;
}
void end_uninterrupted() {
  if (is_explored) --execution->current().uninterrupted;
}
Uninterrupted::Uninterrupted() { begin_uninterrupted(); }
Uninterrupted::~Uninterrupted() { end_uninterrupted(); }

void detail::DataAccesses::written() {
  if (!is_explored) return;
  const VectorClock& clock = execution->current().clock;
  read();
  for (std::size_t i = 0; i < kMaxThreads; ++i) {
    if (i != me() && read_at_[i] > clock.times[i]) {
      fail(FailureKind::kRace, "thread " + std::to_string(me()) + " writes what thread " +
                                   std::to_string(i) + " has read, and nothing orders the two");
    }
  }
  writer_ = execution->running();
  written_at_ = clock.times[me()];
}

void detail::DataAccesses::read() const {
  if (!is_explored) return;
  const VectorClock& clock = execution->current().clock;
  if (writer_ >= 0 && written_at_ > clock.times[static_cast<std::size_t>(writer_)]) {
    fail(FailureKind::kRace, "thread " + std::to_string(me()) + " uses what thread " +
                                 std::to_string(writer_) +
                                 " has written, and nothing orders the two");
  }
  read_at_[me()] = clock.times[me()];
}

}  // namespace keyway::explore
