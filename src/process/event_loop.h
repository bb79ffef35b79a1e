// A Scheduler on one thread that also waits for descriptors: what is ready, timers, pipes,
// processes and signals all happen on that thread, one after the other.
//
//   EventLoop loop;
//   GroupExecutor executor(policy, loop);              // its coroutines run on this thread
//   loop.watch(pipe, reader, EPOLLIN);                 // reader.ready(EPOLLIN)
//   while (!finished && loop.run_one()) {
//   }
//
// Guarantees:
//   (1) run(), fire() and ready() are called by run_one() alone, on the thread that made the loop.
//   (2) Whatever is posted all the time, timers and descriptors have their turn: at least once
//       every 64 items.
//   (3) run_one() sleeps until there is something to do. It returns false only if nothing can come:
//       nothing is ready, no timer waits and no descriptor is watched.
//   (4) After unwatch() has returned, the watcher is not called any more.
// Not guaranteed: that a blocking callable lets others go on. Tasks for an EventLoop are
// coroutines.
//
// Thread safety: post(), now(), add_timer(), cancel_timer() and wait_for_turns_in_progress() from
// any thread, the rest from the thread that made it.
// Lifetime: outlives what was posted and what is watched.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <thread>

#include <sys/epoll.h>

#include "base/file_descriptor.h"
#include "keyway/detail/driven_scheduler.h"
#include "keyway/error.h"
#include "keyway/scheduler.h"
#include "lanes/ready_queue.h"
#include "runtime/timer_queue.h"

namespace keyway {

// Told that a descriptor is ready; `events` as of epoll_wait.
class Watcher {
 public:
  virtual void ready(std::uint32_t events) = 0;

 protected:
  ~Watcher() = default;
};

class EventLoop final : public DrivenScheduler {
 public:
  // Throws Exception (kIo) if the system has no descriptor left.
  EventLoop();
  ~EventLoop() override;
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Calls the watcher whenever the descriptor has one of `events`. An error for one that cannot be
  // waited for: a regular file, which is always ready.
  Result<void> watch(int descriptor, Watcher& watcher, std::uint32_t events);
  // Before it is closed: the kernel goes on watching what somebody else has open too, and a child
  // that is just being started has everything. REQUIRES: it is watched, by this watcher.
  void unwatch(int descriptor, Watcher& watcher);

  void post(Runnable& runnable) override;
  TimePoint now() const override { return std::chrono::steady_clock::now(); }
  void add_timer(Timer& timer, TimePoint deadline) override;
  bool cancel_timer(Timer& timer) override { return timers_.cancel(timer); }
  bool wait_for_turns_in_progress(const TimePoint* deadline = nullptr) override;

  bool run_one() override;
  // Outside of items it runs the loop meanwhile. In one, it blocks the loop.
  Slept sleep(const detail::Atomic<std::uint32_t>& word, std::uint32_t expected,
              const TimePoint* deadline) override;
  std::size_t max_threads() const override { return 1; }

 private:
  static constexpr int kItemsBetweenPolls = 64;

  bool run_ready_item();
  bool poll();
  int milliseconds_to_sleep();
  void dispatch(int count);
  void wake();

  // Constant after construction.
  const std::thread::id thread_ = std::this_thread::get_id();
  FileDescriptor epoll_;
  FileDescriptor wakeup_;

  // Have their own synchronization.
  ReadyQueue ready_;
  TimerQueue timers_;
  std::atomic<bool> sleeping_{false};
  // Odd while a run() is in progress.
  std::atomic<std::uint32_t> turns_{0};
  std::atomic<std::uint32_t> turn_waiters_{0};

  // Of the loop's thread.
  int items_since_poll_ = 0;
  std::size_t watched_ = 0;
  std::array<epoll_event, 64> events_{};
  int next_event_ = 0;
  int event_count_ = 0;
};

}  // namespace keyway
