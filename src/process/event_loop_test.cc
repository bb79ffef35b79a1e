#include "process/event_loop.h"

#include <functional>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/task.h"
#include "support/jobs.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;

struct Alarm final : Timer {
  explicit Alarm(std::function<void()> then) : work(std::move(then)) {}
  void fire() override { work(); }
  std::function<void()> work;
};

struct Reader final : Watcher {
  explicit Reader(std::function<void()> then) : work(std::move(then)) {}
  void ready(std::uint32_t) override { work(); }
  std::function<void()> work;
};

struct Pipe {
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
    out = FileDescriptor(ends[0]);
    in = FileDescriptor(ends[1]);
  }
  void put() { EXPECT_EQ(write(in.get(), "x", 1), 1); }
  FileDescriptor out, in;
};

TEST(EventLoop, HasNothingToDoWhenNothingCanCome) {
  EventLoop loop;
  EXPECT_TRUE(loop.is_driven());
  EXPECT_FALSE(loop.run_one());
}

TEST(EventLoop, RunsWhatIsPostedInOrder) {
  EventLoop loop;
  std::string order;
  Job first([&] { order += 'a'; });
  Job second([&] { order += 'b'; });
  loop.post(first);
  loop.post(second);
  while (loop.run_one()) {
  }
  EXPECT_EQ(order, "ab");
}

TEST(EventLoop, TimersFireInTheOrderOfTheirTimesAndNotBefore) {
  EventLoop loop;
  std::string order;
  const TimePoint start = loop.now();
  Alarm later([&] {
    order += 'b';
    EXPECT_GE(loop.now(), start + 4ms);
  });
  Alarm sooner([&] { order += 'a'; });
  Alarm never([&] { order += 'c'; });
  loop.add_timer(later, start + 4ms);
  loop.add_timer(sooner, start + 1ms);
  loop.add_timer(never, start + 2ms);
  EXPECT_TRUE(loop.cancel_timer(never));
  while (loop.run_one()) {
  }
  EXPECT_EQ(order, "ab");
}

TEST(EventLoop, WakesForADescriptor) {
  EventLoop loop;
  Pipe pipe;
  int reads = 0;
  Reader reader([&] {
    char text = 0;
    EXPECT_EQ(read(pipe.out.get(), &text, 1), 1);
    ++reads;
    loop.unwatch(pipe.out.get(), reader);
  });
  ASSERT_TRUE(loop.watch(pipe.out.get(), reader, EPOLLIN).ok());
  pipe.put();
  while (loop.run_one()) {
  }
  EXPECT_EQ(reads, 1);
}

TEST(EventLoop, ARegularFileIsNotWaitedFor) {
  EventLoop loop;
  const FileDescriptor file(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  Reader reader([] {});
  EXPECT_FALSE(loop.watch(file.get(), reader, EPOLLIN).ok());
  EXPECT_FALSE(loop.run_one());
}

TEST(EventLoop, AWatcherThatWasUnwatchedByAnotherIsNotCalled) {
  EventLoop loop;
  Pipe one, two;
  int calls = 0;
  Reader* readers[2] = {};
  const auto unwatch_both = [&] {
    ++calls;
    loop.unwatch(one.out.get(), *readers[0]);
    loop.unwatch(two.out.get(), *readers[1]);
  };
  Reader first(unwatch_both), second(unwatch_both);
  readers[0] = &first;
  readers[1] = &second;
  ASSERT_TRUE(loop.watch(one.out.get(), first, EPOLLIN).ok());
  ASSERT_TRUE(loop.watch(two.out.get(), second, EPOLLIN).ok());
  one.put();
  two.put();
  while (loop.run_one()) {
  }
  EXPECT_EQ(calls, 1);
}

TEST(EventLoop, AnUnwatchedDescriptorIsSilentThoughSomebodyElseHasItOpenToo) {
  EventLoop loop;
  Pipe pipe;
  const FileDescriptor elsewhere(dup(pipe.out.get()));  // as a child that is just being started has
  Reader reader([] { ADD_FAILURE() << "called after unwatch()"; });
  ASSERT_TRUE(loop.watch(pipe.out.get(), reader, EPOLLIN).ok());
  loop.unwatch(pipe.out.get(), reader);
  pipe.out.close();
  pipe.put();
  Alarm alarm([] {});
  loop.add_timer(alarm, loop.now());
  EXPECT_TRUE(loop.run_one());
  EXPECT_FALSE(loop.run_one());
}

TEST(EventLoop, WorkWithoutEndDoesNotKeepTimersAndDescriptorsWaiting) {
  EventLoop loop;
  Pipe pipe;
  bool fired = false;
  bool read_it = false;
  int rounds = 0;
  Repeater busy(10'000, [&] {
    if (!fired || !read_it) ++rounds;
  });
  Alarm alarm([&] { fired = true; });
  Reader reader([&] {
    read_it = true;
    loop.unwatch(pipe.out.get(), reader);
  });
  loop.post(busy);
  loop.add_timer(alarm, loop.now());
  ASSERT_TRUE(loop.watch(pipe.out.get(), reader, EPOLLIN).ok());
  pipe.put();
  while (loop.run_one()) {
  }
  EXPECT_TRUE(fired && read_it);
  EXPECT_LE(rounds, 64);
}

TEST(EventLoop, IsWokenByAPostFromAnotherThread) {
  EventLoop loop;
  Pipe pipe;  // so that there is something to wait for
  Reader reader([] {});
  ASSERT_TRUE(loop.watch(pipe.out.get(), reader, EPOLLIN).ok());
  constexpr int kPosts = 2'000;
  int ran = 0;
  std::vector<std::unique_ptr<Job>> jobs;
  for (int i = 0; i < kPosts; ++i) {
    jobs.push_back(std::make_unique<Job>([&, last = i == kPosts - 1] {
      ++ran;
      if (last) loop.unwatch(pipe.out.get(), reader);
    }));
  }
  std::thread other([&] {
    for (auto& job : jobs) loop.post(*job);
  });
  while (loop.run_one()) {
  }
  other.join();
  EXPECT_EQ(ran, kPosts);
}

TEST(EventLoop, IsWokenByAnEarlierTimerFromAnotherThread) {
  EventLoop loop;
  bool fired = false;
  Alarm late([] {});
  loop.add_timer(late, loop.now() + 1h);
  Alarm soon([&] {
    fired = true;
    loop.cancel_timer(late);
  });
  std::thread other([&] { loop.add_timer(soon, loop.now() + 1ms); });
  while (loop.run_one()) {
  }
  other.join();
  EXPECT_TRUE(fired);
}

TEST(EventLoop, AnotherThreadCanWaitForTheTurnInProgress) {
  EventLoop loop;
  std::latch began(1);
  std::atomic<bool> over{false};
  bool was_over = false;
  std::thread other([&] {
    began.wait();
    loop.wait_for_turns_in_progress();
    was_over = over.load();
  });
  Job job([&] {
    began.count_down();
    // Until the other one has had many chances to return too early.
    for (int i = 0; i < 1'000; ++i) std::this_thread::yield();
    over = true;
  });
  loop.post(job);
  EXPECT_TRUE(loop.run_one());
  other.join();
  EXPECT_TRUE(was_over);
}

TEST(EventLoop, RunsAGroupExecutorUnchanged) {
  EventLoop loop;
  GroupExecutor executor({.default_group = {.max_concurrency = 2}}, loop);
  int running = 0;
  int most = 0;
  const auto nap = [&]() -> Task<int> {
    most = std::max(most, ++running);
    co_await sleep_for(1ms);
    --running;
    co_return 7;
  };
  std::vector<TaskHandle<int>> handles;
  for (int i = 0; i < 6; ++i) handles.push_back(executor.submit("k", "t", nap));
  for (auto& handle : handles) EXPECT_EQ(handle.join().value(), 7);
  EXPECT_EQ(most, 2);
}

}  // namespace
}  // namespace keyway
