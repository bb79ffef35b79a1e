// Runs a small concurrent scenario in many interleavings, and finds the ones that break its promises.
//
//   class TwoWriters final : public Scenario {
//     void run(int thread) override { lane_.enter(waiters_[thread]); ... }
//     void check() override { require(lane_.counts().entered == 2, "a waiter was lost"); }
//   };
//   EXPECT_TRUE(explore<TwoWriters>({.threads = 2}, *exhaustive(2), 10'000).ok());
//
// The threads are real threads, but only one runs at a time. Every operation on a detail::Atomic, a SpinLock,
// a Mutex, a CondVar or a futex is a yield point (base/explore_hooks.h). There the running thread itself asks
// the strategy which thread goes on, and hands over if it is another thread.
//
// Failures that it finds:
//   kRequirement  require() was called with false, by the scenario
//   kRace         two accesses to a Data<T> that no happens-before relation orders
//   kDeadlock     no thread can run; the message says what each of them waits for
//   kEndless      an execution took more than max_steps steps
//   kCrash        the process died of a signal, of a failed KEYWAY_CHECK for example
//   kStuck        a thread blocks in a way that the explorer does not manage
// An exploration runs in a process of its own, which ends at the first failure. The schedule of the execution
// that failed is kept in memory shared with the parent, so it is known after a crash too.
//
// Not found: what needs an order that is not sequentially consistent, except as a race on a Data<T>; and
// interleavings within std::stop_source or other parts of the standard library.
//
// Thread safety: explore() from one thread, in a process without other threads.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/explore_hooks.h"
#include "explore/strategy.h"

namespace keyway::explore {

inline constexpr int kMaxThreads = 5;

// Made anew for each execution, outside of the explored threads.
class Scenario {
 public:
  virtual ~Scenario() = default;
  virtual void run(int thread) = 0;
  // After all threads have returned.
  virtual void check() {}
};

struct ScenarioOptions {
  int threads = 2;
  std::uint32_t max_steps = 20'000;
  // Whether the locks of the block pool are yield points too. The pool's state outlives an execution, so
  // other scenarios would not repeat themselves.
  bool explores_blocks = false;
  // Whether another thread may run first after an unlock too, not only before the next operation on shared state.
  // For plain data that belongs to a thread by protocol, and not by a lock.
  bool yields_after_unlock = false;
  // Whether a wait with a deadline may time out at any moment, or only when no thread can run.
  bool times_out_any_time = false;
};

enum class FailureKind : std::uint8_t {
  kNone,
  kRequirement,
  kRace,
  kDeadlock,
  kEndless,
  kCrash,
  kStuck
};
const char* name_of(FailureKind kind);

struct Outcome {
  std::uint64_t executions = 0;
  std::uint64_t distinct = 0;  // of these, with a schedule of their own
  std::uint64_t steps = 0;
  std::uint64_t divergences = 0;  // executions that did not repeat their prefix
  std::uint64_t followed = 0;     // of a replay: deviations that were made
  bool exhausted = false;
  FailureKind failure = FailureKind::kNone;
  std::string message;
  std::string schedule;  // for replay()

  bool ok() const { return failure == FailureKind::kNone; }
};

Outcome explore(const std::function<std::unique_ptr<Scenario>()>& make,
                const ScenarioOptions& options, Strategy& strategy, std::uint64_t executions);

template <class S>
Outcome explore(const ScenarioOptions& options, Strategy& strategy, std::uint64_t executions) {
  return explore([] { return std::make_unique<S>(); }, options, strategy, executions);
}

// ---- for scenarios

// Ends the exploration with kRequirement if the condition does not hold.
void require(bool condition, const char* message);
[[noreturn]] void fail(FailureKind kind, const std::string& message);

// A yield point of the scenario's own.
void yield();

// Virtual time. It advances when a wait with a deadline times out.
std::chrono::steady_clock::time_point now();

// Blocks the calling thread until `holds` is true, which is asked whenever another thread has called changed(), or
// until the deadline. For the scenario's own waits: one yield point each. Orders nothing but time: to the explorer,
// what one thread did before changed() does not happen before what the other one does after its wait.
void wait_until(const char* what, const std::function<bool()>& holds, Deadline deadline = {});
void changed();
// Which explored thread calls; -1: none.
int this_thread();

// While it lives, the calling thread is not interrupted.
class Uninterrupted {
 public:
  Uninterrupted();
  ~Uninterrupted();
  Uninterrupted(const Uninterrupted&) = delete;
  Uninterrupted& operator=(const Uninterrupted&) = delete;
};

namespace detail {
class DataAccesses {
 public:
  void written();
  void read() const;

 private:
  int writer_ = -1;
  std::uint32_t written_at_ = 0;
  mutable std::uint32_t read_at_[kMaxThreads] = {};
};
}  // namespace detail

// A plain variable of the scenario's: two accesses, of which one is a write, must be ordered by the library's
// own synchronization. Not a yield point.
template <class T>
class Data {
 public:
  explicit Data(T value = {}) : value_(value) {}
  void write(T value) {
    accesses_.written();
    value_ = value;
  }
  T read() const {
    accesses_.read();
    return value_;
  }

 private:
  detail::DataAccesses accesses_;
  T value_;
};

}  // namespace keyway::explore
