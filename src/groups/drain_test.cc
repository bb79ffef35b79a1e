// drain(): what it waits for, and for how long.
#include <atomic>
#include <chrono>
#include <functional>
#include <latch>
#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "support/foreign_coroutine.h"
#include "support/listeners.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;

TEST(Drain, WaitsForAListenerThatBlocks) {
  GroupExecutor other({}, ThreadPoolOptions{.threads = 1});
  std::latch blocks(1);
  std::latch open(1);
  std::atomic<bool> told{false};
  const auto listener = std::make_shared<EndListener>();
  listener->ended = [&](const std::string&) {
    auto gate = other.submit("gate", [&] {
      blocks.count_down();
      open.wait();
    });
    (void)gate.join();  // a blocking region of the pool
    told = true;
  };
  GroupExecutor executor({.listener = listener}, ThreadPoolOptions{.threads = 2});
  auto task = executor.submit("g", "a", [] {});
  blocks.wait();
  EXPECT_FALSE(executor.drain(20ms));
  open.count_down();
  executor.drain();
  EXPECT_TRUE(told);
  EXPECT_TRUE(task.is_done());
}

// The destructor of a value that nobody takes: the task has left its lane by then.
TEST(Drain, KeepsItsDeadlineWhileATurnIsOnItsWayOut) {
  struct Value {
    explicit Value(std::function<void()> last_words) : last_words_(std::move(last_words)) {}
    Value(Value&& other) noexcept : last_words_(std::exchange(other.last_words_, nullptr)) {}
    ~Value() {
      if (last_words_) last_words_();
    }
    std::function<void()> last_words_;
  };
  std::latch dies(1);
  std::latch open(1);
  GroupExecutor executor({}, ThreadPoolOptions{.threads = 1});
  (void)executor.submit("g", [&] {
    return Value([&] {
      dies.count_down();
      open.wait();
    });
  });
  dies.wait();
  EXPECT_FALSE(executor.drain(20ms));
  open.count_down();
  EXPECT_TRUE(executor.drain(Duration::max()));
}

TEST(Drain, OfAGroupWithoutTasksNeedsNoThread) {
  ThreadPool pool({.threads = 1, .max_threads = 1});
  GroupExecutor other({}, pool);
  GroupExecutor executor({}, pool);
  auto task = executor.submit("g", [&] {
    return other.drain() && other.drain_group("none") && executor.drain_group("none");
  });
  EXPECT_TRUE(task.join().value());
}

// Neither of them waits for the other.
TEST(Drain, TwoListenersMayDrainAtOnceOnAnExecutorOfTheCallers) {
  std::latch inside(2);
  std::atomic<int> drained{0};
  const auto listener = std::make_shared<EndListener>();
  GroupExecutor* executor = nullptr;
  listener->ended = [&](const std::string&) {
    inside.arrive_and_wait();
    executor->drain();
    ++drained;
  };
  ThreadPool threads({.threads = 4});
  struct Call final : Runnable {
    void run(Turn&) override {
      const std::unique_ptr<Call> self(this);
      function();
    }
    std::function<void()> function;
  };
  struct Theirs {
    void execute(std::function<void()> function) const {
      auto* call = new Call;
      call->function = std::move(function);
      threads.post(*call);
    }
    ThreadPool& threads;
  } theirs{threads};
  GroupExecutor on_theirs({.listener = listener}, theirs, ExecutorOptions{.threads = 4});
  executor = &on_theirs;
  auto a = on_theirs.submit("a", "a", [] {});
  auto b = on_theirs.submit("b", "b", [] {});
  (void)a.join();
  (void)b.join();
  EXPECT_EQ(drained, 2);
}

// Each task submits the next one to another group before it ends, so that there is always a task.
TEST(Drain, WaitsForTasksThatSubmitTheNextOneToAnotherGroup) {
  constexpr int kTasks = 20000;
  for (int round = 0; round < 10; ++round) {
    std::atomic<int> ended{0};
    GroupExecutor executor({}, ThreadPoolOptions{.threads = 2});
    std::function<void()> next = [&] {
      if (++ended < kTasks) (void)executor.post("group " + std::to_string(ended % 64), next);
    };
    EXPECT_TRUE(executor.post("first", next));
    executor.drain();
    EXPECT_EQ(ended, kTasks);
  }
}

ForeignCoroutine run_on_after(TaskHandle<void> handle, std::latch& inside, std::latch& may_end) {
  (void)co_await handle;
  inside.count_down();
  may_end.wait();
}

TEST(Drain, DoesNotWaitForAForeignCoroutineThatAwaitedATask) {
  std::latch inside(1);
  std::latch may_end(1);
  std::latch may_begin(1);
  GroupExecutor executor({});
  run_on_after(executor.submit("a", [&] { may_begin.wait(); }), inside, may_end);
  may_begin.count_down();
  inside.wait();
  EXPECT_TRUE(executor.drain(1h));
  may_end.count_down();
}

}  // namespace
}  // namespace keyway
