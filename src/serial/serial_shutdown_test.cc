// The end of a dispatcher: with nothing, with work that waits, that runs, and with callers inside.
#include <atomic>
#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/serial_dispatcher.h"
#include "runtime/wait_graph.h"
#include "serial/serial_fixture.h"
#include "serial/sticky_simulation.h"
#include "support/at_end.h"
#include "support/foreign_coroutine.h"
#include "support/jobs.h"
#include "support/own_process.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;

using SerialShutdown = SerialRoutings;
INSTANTIATE_TEST_SUITE_P(Routing, SerialShutdown,
                         ::testing::Values(Routing::kPerKey, Routing::kSticky), name_of_routing);

TEST(SerialShutdownOnAFullPool, AnIdleDispatcherNeedsNoThreadToEnd) {
  ThreadPool pool({.threads = 1, .max_threads = 1});
  GroupExecutor executor({}, pool);
  auto task = executor.submit("a", [&] {
    const SerialDispatcher dispatcher({.workers = 1}, pool);
    const GroupExecutor other({}, pool);
  });
  EXPECT_TRUE(task.join().ok());
}

TEST_P(SerialShutdown, RestartLeavesNoThreads) {
  const std::ptrdiff_t before = thread_count();
  for (int i = 0; i < 5; ++i) {
    SerialDispatcher dispatcher(options({.workers = 6}));
    EXPECT_LE(thread_count(), before + 7);  // those that work, and the one for timers
    for (int n = 0; n < 20; ++n) {
      EXPECT_TRUE(dispatcher.run("key-" + std::to_string(n), [] {}));
    }
    EXPECT_TRUE(dispatcher.shutdown(1h));
    EXPECT_TRUE(eventually([&] { return thread_count() <= before; }));
    EXPECT_TRUE(dispatcher.shutdown(1h));
  }
  {
    SerialDispatcher dispatcher(options());
    EXPECT_TRUE(dispatcher.run("a", [] {}));
  }
  EXPECT_TRUE(eventually([&] { return thread_count() <= before; }));
}

TEST_P(SerialShutdown, WhatWaitsIsDoneBeforeTheDeadlineIsOver) {
  SerialDispatcher dispatcher(options());
  int count = 0;
  auto busy = std::make_unique<Busy>(dispatcher, "a");
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(dispatcher.post("a", [&] { ++count; }));
  std::jthread later([&] { busy->let_go(); });
  EXPECT_TRUE(dispatcher.shutdown(1h));
  EXPECT_EQ(count, 100);
}

TEST_P(SerialShutdown, AfterTheDeadlineWhatWaitsNeverRunsAndWhatRunsIsAskedToStop) {
  SerialDispatcher dispatcher(options());
  std::latch began(1);
  bool ran = false;
  auto running = dispatcher.dispatch("a", [&](std::stop_token stop) {
    began.count_down();
    while (!stop.stop_requested()) std::this_thread::yield();
    return 1;
  });
  began.wait();
  auto waiting = dispatcher.dispatch("a", [&] { ran = true; });
  std::jthread caller([&] {
    const Result<void> result = dispatcher.run("a", [&] { ran = true; });
    EXPECT_EQ(result.error().code, ErrorCode::kShutdown);
    EXPECT_FALSE(result.error().retryable);
  });
  EXPECT_TRUE(eventually([&] { return dispatcher.stats().waiting == 2; }));
  EXPECT_FALSE(dispatcher.shutdown(1ms));
  EXPECT_EQ(running->join().value(), 1);
  EXPECT_EQ(waiting->join().status, TaskStatus::kRejected);
  caller.join();
  EXPECT_FALSE(ran);
}

TEST_P(SerialShutdown, ATimeoutThatIsLongOverWaitsForNothing) {
  SerialDispatcher dispatcher(options());
  std::latch began(1);
  auto running = dispatcher.dispatch("a", [&](std::stop_token stop) {
    began.count_down();
    return eventually([&] { return stop.stop_requested(); });
  });
  began.wait();
  EXPECT_FALSE(dispatcher.shutdown(Duration::min()));
  EXPECT_TRUE(running->join().value());
}

// The timeout is that of the call, not of each worker: the second worker has the time that the first has left.
TEST(SerialShutdownSimulated, WaitsForAllWorkersTogetherNoLongerThanItsTimeout) {
  testing::SimScheduler sim;
  const auto dispatcher = StickySimulation::make({.workers = 2, .routing = Routing::kSticky}, sim);
  const std::string other = key_apart_from(*dispatcher, "a");
  const bool a_is_first = dispatcher->lane_of("a") < dispatcher->lane_of(other);
  const auto nap = [&](std::string_view key, Duration time) {
    return *dispatcher->dispatch(key, [time]() -> Task<void> { co_await sleep_for(time); });
  };
  auto first = nap(a_is_first ? "a" : other, 8ms);
  auto second = nap(a_is_first ? other : "a", 16ms);
  const TimePoint began = sim.now();
  EXPECT_FALSE(dispatcher->shutdown(10ms));
  EXPECT_EQ(sim.now() - began, 10ms);
  EXPECT_EQ(first.join().status, TaskStatus::kSuccess);
  EXPECT_EQ(second.join().status, TaskStatus::kCancelled);
}

TEST_P(SerialShutdown, NothingIsTakenAfterwards) {
  for (const OnFull on_full : {OnFull::kFailFast, OnFull::kCallerRuns}) {
    SerialDispatcher dispatcher(options({.on_full = on_full}));
    EXPECT_TRUE(dispatcher.shutdown(0s));
    bool ran = false;
    const auto work = [&] { ran = true; };
    const std::vector<Error> errors{
        dispatcher.run("a", work).error(),
        dispatcher.try_run_for("a", 1h, work).error(),
        dispatcher.dispatch("a", work).error(),
        dispatcher.post("a", work).error(),
    };
    for (const Error& error : errors) {
      EXPECT_EQ(error.code, ErrorCode::kShutdown);
      EXPECT_FALSE(error.retryable);
      EXPECT_NE(error.message.find("\"a\""), std::string::npos) << error.message;
    }
    EXPECT_FALSE(ran);
    EXPECT_EQ(dispatcher.stats().running, 0U);
    EXPECT_EQ(dispatcher.explain("a").waiting, 0U);
  }
}

// A destructor of captures is user code: it runs when the caller has its permits again, and waits for nothing.
TEST(SerialShutdownSimulated, ARefusedCallIsDestroyedWhenItsCallerHasItsPermits) {
  testing::SimScheduler sim;
  for (const OnFull on_full : {OnFull::kFailFast, OnFull::kCallerRuns}) {
    SerialDispatcher dispatcher({.workers = 1, .on_full = on_full}, sim);
    EXPECT_TRUE(dispatcher.shutdown(0s));
    GroupExecutor executor({.global_max_in_flight = 1}, sim);
    TaskHandle<void> calls;
    std::string waited_for = "not destroyed";
    calls = executor.submit("x", "calls", [&] {
      const Result<void> result = dispatcher.run(
          "a", [end = AtEnd([&] {
                  waited_for = WaitGraph::instance().waits_for(detail::HandleAccess::core(calls));
                })] {});
      EXPECT_EQ(result.error().code, ErrorCode::kShutdown);
    });
    EXPECT_TRUE(calls.join().ok());
    EXPECT_EQ(waited_for, "");
  }
}

// Work that begins after the stop requests, as a part of work that was asked.
TEST_P(SerialShutdown, WorkOfTheOwnLaneThatBeginsLaterIsAskedToStop) {
  expect_ends([&] {
    SerialDispatcher dispatcher(options());
    const auto until_stopped = [](std::stop_token stop) {
      while (!stop.stop_requested()) std::this_thread::sleep_for(100us);
    };
    std::latch began(1);
    ASSERT_TRUE(dispatcher
                    .post("a",
                          [&](std::stop_token stop) {
                            began.count_down();
                            until_stopped(stop);
                            EXPECT_TRUE(dispatcher.run("a", until_stopped).ok());
                          })
                    .ok());
    began.wait();
    EXPECT_FALSE(dispatcher.shutdown(1ms));
  });
}

TEST_P(SerialShutdown, WhatRunsMayStillCallItsOwnLane) {
  SerialDispatcher dispatcher(options());
  const std::string other = key_apart_from(dispatcher, "a");
  std::latch began(1);
  std::latch closed(1);
  auto running = dispatcher.dispatch("a", [&] {
    began.count_down();
    closed.wait();
    EXPECT_EQ(dispatcher.run(other, [] {}).error().code, ErrorCode::kShutdown);
    return *dispatcher.run("a", [] { return 5; });
  });
  began.wait();
  std::jthread closing([&] { EXPECT_TRUE(dispatcher.shutdown(1h)); });
  const auto is_closed = [&](const std::string& key) {
    const Result<void> posted = dispatcher.post(key, [] {});
    return !posted && posted.error().code == ErrorCode::kShutdown;  // not: its queue is full
  };
  EXPECT_TRUE(eventually([&] { return is_closed("a") && is_closed(other); }));
  closed.count_down();
  EXPECT_EQ(running->join().value(), 5);
}

TEST_P(SerialShutdown, TheDestructorEndsWhatWaitsAndCallersHearOfIt) {
  for (const OnFull on_full : {OnFull::kFailFast, OnFull::kCallerRuns}) {
    std::optional<SerialDispatcher> dispatcher(std::in_place,
                                               options({.queue_capacity = 1, .on_full = on_full}));
    std::latch began(1);
    std::atomic<int> ran = 0;
    auto running = dispatcher->dispatch("a", [&](std::stop_token stop) {
      began.count_down();
      while (!stop.stop_requested()) std::this_thread::yield();
    });
    began.wait();
    auto waiting = dispatcher->dispatch("a", [&] { ++ran; });
    std::vector<std::jthread> callers;
    if (on_full == OnFull::kCallerRuns) {
      for (int i = 0; i < 3; ++i) {
        callers.emplace_back([&] {
          const Result<void> result = dispatcher->run("a", [&] { ++ran; });
          EXPECT_EQ(result.error().code, ErrorCode::kShutdown);
        });
      }
      EXPECT_TRUE(eventually([&] { return dispatcher->stats().callers_in_line == 3; }));
    }
    dispatcher.reset();
    EXPECT_TRUE(running->is_done());
    EXPECT_EQ(waiting->join().status, TaskStatus::kRejected);
    callers.clear();
    EXPECT_EQ(ran, 0);
  }
}

TEST_P(SerialShutdown, WorkOfSeveralLanesThatWaitForEachOtherEndsToo) {
  for (int i = 0; i < 20; ++i) {
    std::optional<SerialDispatcher> dispatcher(std::in_place, options());
    const std::string other = key_apart_from(*dispatcher, "a");
    std::latch began(1);
    auto busy = dispatcher->dispatch(other, [&](std::stop_token stop) {
      while (!stop.stop_requested()) std::this_thread::yield();
    });
    auto calling = dispatcher->dispatch("a", [&] {
      began.count_down();
      return dispatcher->run(other, [] {}).error().code;
    });
    began.wait();
    dispatcher.reset();
    EXPECT_EQ(calling->join().value(), ErrorCode::kShutdown);
  }
}

TEST_P(SerialShutdown, WorkMayShutItsDispatcherDown) {
  SerialDispatcher dispatcher(options());
  EXPECT_FALSE(*dispatcher.run("a", [&] { return dispatcher.shutdown(1h); }));
  EXPECT_EQ(dispatcher.post("a", [] {}).error().code, ErrorCode::kShutdown);
  EXPECT_TRUE(dispatcher.shutdown(1h));
}

// Work of one dispatcher shuts another one down, whose work waits for the caller's lane.
TEST_P(SerialShutdown, WorkThatWaitsForTheCallerIsNotWaitedFor) {
  expect_ends([&] {
    SerialDispatcher first(options({.workers = 2}));
    SerialDispatcher second(options({.workers = 2}));
    std::atomic<bool> asked = false;
    std::latch began(1);
    Result<TaskHandle<void>> waits = Error{};
    Result<TaskHandle<void>> queued = Error{};
    const auto returned = first.run("k", [&] {
      waits = second.dispatch("x", [&](std::stop_token stop) {
        began.count_down();
        EXPECT_TRUE(first.run("k", [] {}).ok());
        asked = stop.stop_requested();
      });
      began.wait();
      queued = second.dispatch("x", [] {});
      const detail::TaskCore& task = detail::HandleAccess::core(*waits);
      while (WaitGraph::instance().waits_for(task).empty()) std::this_thread::yield();
      return second.shutdown(1ms);
    });
    EXPECT_FALSE(*returned);
    EXPECT_TRUE(waits->join().ok());
    EXPECT_TRUE(asked);
    EXPECT_EQ(queued->join().status, TaskStatus::kRejected);
    EXPECT_EQ(second.post("x", [] {}).error().code, ErrorCode::kShutdown);
    // From outside it can wait, and ends the threads.
    const std::ptrdiff_t before = thread_count();
    EXPECT_TRUE(second.shutdown(1h));
    EXPECT_TRUE(eventually([&] { return thread_count() < before; }));
  });
}

// On the last thread of a scheduler that both use.
TEST(SerialShutdownOnAFullPool, WorkThatNeedsTheCallersThreadIsNotWaitedFor) {
  expect_ends([] {
    ThreadPool pool({.threads = 1, .max_threads = 1});
    GroupExecutor executor({}, pool);
    SerialDispatcher dispatcher({.workers = 1}, pool);
    Result<TaskHandle<void>> queued = Error{};
    auto task = executor.submit("a", [&] {
      queued = dispatcher.dispatch("x", [] {});
      return dispatcher.shutdown(1ms);
    });
    EXPECT_FALSE(task.join().value());
    EXPECT_EQ(queued->join().status, TaskStatus::kRejected);
    EXPECT_TRUE(dispatcher.shutdown(1h));
  });
}

// It goes on on the thread of the work that it awaited, outside of any work.
ForeignCoroutine shut_down_after(SerialDispatcher& dispatcher, TaskHandle<void> work,
                                 std::latch& done) {
  (void)co_await work;
  (void)dispatcher.shutdown(1s);
  done.count_down();
}

TEST_P(SerialShutdown, AForeignCoroutineOnAThreadOfTheDispatcherMayShutItDown) {
  SerialDispatcher dispatcher({.routing = GetParam()});
  std::latch may_end(1);
  std::latch done(1);
  Result<TaskHandle<void>> work = dispatcher.dispatch("a", [&] { may_end.wait(); });
  shut_down_after(dispatcher, *std::move(work), done);
  may_end.count_down();
  done.wait();
  EXPECT_FALSE(dispatcher.run("a", [] {}).ok());
}

// The coroutine blocks in a wait when the other thread ends the dispatcher's threads.
ForeignCoroutine shut_down_later(SerialDispatcher& dispatcher, TaskHandle<void> work,
                                 TaskHandle<void> blocks, std::latch& inside) {
  (void)co_await work;
  inside.count_down();
  (void)blocks.join();
  (void)dispatcher.shutdown(1s);
}

// A key of the worker whose thread is ended last.
std::string key_of_last_worker(const SerialDispatcher& dispatcher) {
  std::string key = "a";
  if (dispatcher.lane_of(key) == "worker 0") key = key_apart_from(dispatcher, key);
  return key;
}

TEST_P(SerialShutdown, AForeignCoroutineMayShutItDownWhileAnotherThreadDoes) {
  expect_ends([&] {
    std::latch may_end(1);
    std::latch inside(1);
    GroupExecutor other({});
    SerialDispatcher dispatcher(options({.workers = 2}));
    const std::string key = key_of_last_worker(dispatcher);
    auto blocks = other.submit("x", [&] { may_end.wait(); });
    shut_down_later(dispatcher, *dispatcher.dispatch(key, [] {}), std::move(blocks), inside);
    inside.wait();
    EXPECT_TRUE(dispatcher.run(key_apart_from(dispatcher, key), [] {}));  // on another thread
    const std::ptrdiff_t before = thread_count();
    std::jthread ends([&] { EXPECT_TRUE(dispatcher.shutdown(1h)); });
    // When a thread of the dispatcher has ended, `ends` holds the mutex, for as long as the coroutine blocks.
    while (thread_count() > before) std::this_thread::yield();
    may_end.count_down();
  });
}

TEST_P(SerialShutdown, AWaitingTaskCanBeCancelledAndARunningOneAskedToStop) {
  SerialDispatcher dispatcher(options());
  std::latch began(1);
  auto running = dispatcher.dispatch("a", [&](std::stop_token stop) {
    began.count_down();
    while (!stop.stop_requested()) std::this_thread::yield();
    throw CancelledError();
  });
  began.wait();
  bool ran = false;
  auto waiting = dispatcher.dispatch("a", [&] { ran = true; });
  EXPECT_TRUE(waiting->cancel());
  EXPECT_EQ(waiting->join().status, TaskStatus::kCancelled);
  EXPECT_TRUE(running->cancel());
  EXPECT_EQ(running->join().status, TaskStatus::kCancelled);
  EXPECT_TRUE(dispatcher.run("a", [] {}));
  EXPECT_FALSE(ran);
}

}  // namespace
}  // namespace keyway
