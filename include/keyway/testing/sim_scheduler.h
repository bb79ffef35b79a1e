// A scheduler without threads and with a time of its own, for tests: what it does depends on its seed
// alone, so a failing run replays exactly.
//
//   testing::SimScheduler sim(seed);
//   GroupExecutor executor({...}, sim);
//   auto handle = executor.submit("vip", "task-1", [] { return nap(); });   // Task<int> nap()
//   sim.run_until_idle();                       // ten virtual minutes of sleep take microseconds
//   EXPECT_EQ(handle.join().value(), 42);
//
// Guarantees:
//   (1) One step at a time, on the thread that asks for it. A wait outside of items (join, sync_wait) makes
//       steps until it is over. An item that waits sleeps on a stack of its own while other items run, as a
//       thread of a pool would; so an item never has to wait for the item above it on a stack.
//   (2) With a seed, the next item is picked at random among those that are ready: any order that some
//       number of threads could bring about, item by item. Without one, in the order of posting.
//   (3) Time moves only when nothing is ready, to the next timer, or by advance().
// Not guaranteed: interleavings within an item; two callables never overlap, two coroutines do.
//
// Thread safety: one thread.
// Lifetime: outlives the executors that use it.
#pragma once

#include "keyway/detail/require_cpp20.h"

#include <cstdint>
#include <memory>

#include "keyway/detail/driven_scheduler.h"
#include "keyway/scheduler.h"

namespace keyway::testing {

class SimScheduler final : public DrivenScheduler {
 public:
  SimScheduler();
  explicit SimScheduler(std::uint64_t seed);
  ~SimScheduler() override;

  // One item or one timer. False if there is neither.
  bool run_one() override;
  // Steps until nothing is ready and no timer waits; the number of steps.
  std::size_t run_until_idle();
  // Steps until nothing is ready, but lets no time pass.
  std::size_t run_ready();
  // Lets time pass: fires what is due, runs what is ready.
  void advance(Duration duration);

  std::size_t ready_count() const;
  // A random number below `bound` from the simulation's own source.
  std::uint64_t random_below(std::uint64_t bound);

  void post(Runnable& runnable) override;
  TimePoint now() const override;
  void add_timer(Timer& timer, TimePoint deadline) override;
  bool cancel_timer(Timer& timer) override;
  bool wait_for_turns_in_progress(const TimePoint*) override { return true; }
  void add_idle_listener(IdleListener&) override { ++users_; }
  void remove_idle_listener(IdleListener&) override { --users_; }
  Slept sleep(const detail::Atomic<std::uint32_t>& word, std::uint32_t expected,
              const TimePoint* deadline) override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
  int users_ = 0;  // executors; for the check of the destructor
};

}  // namespace keyway::testing
