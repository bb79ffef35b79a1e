// Executors of Boost.Asio, given by value.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <gtest/gtest.h>

#include "keyway/executor_scheduler.h"
#include "keyway/group_executor.h"

namespace keyway {
namespace {

namespace asio = boost::asio;

// Tasks of ten groups, of which each may run one at a time; all end, and none runs beside another of its group.
void expect_runs_tasks(GroupExecutor& executor) {
  std::vector<std::atomic<int>> inside(10);
  std::vector<TaskHandle<int>> handles;
  for (int i = 0; i < 200; ++i) {
    std::atomic<int>& group = inside[static_cast<std::size_t>(i % 10)];
    handles.push_back(executor.submit("g" + std::to_string(i % 10), [&group, i] {
      EXPECT_EQ(++group, 1);
      --group;
      return i;
    }));
  }
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(handles[static_cast<std::size_t>(i)].join().value(), i);
  }
}

TEST(AsioExecutor, OfAThreadPoolIsTakenByValue) {
  asio::thread_pool threads(2);
  GroupExecutor executor({}, threads.get_executor(), {.threads = 2});
  expect_runs_tasks(executor);
}

TEST(AsioExecutor, OfAStrandRunsOneTaskAtATime) {
  asio::thread_pool threads(2);
  GroupExecutor executor({.default_group = {.max_concurrency = 4}},
                         asio::make_strand(threads.get_executor()), {.threads = 1});
  std::atomic<int> inside = 0;
  std::vector<TaskHandle<void>> handles;
  for (int i = 0; i < 100; ++i) {
    handles.push_back(executor.submit("g", [&] {
      EXPECT_EQ(++inside, 1);
      --inside;
    }));
  }
  for (auto& handle : handles) EXPECT_TRUE(handle.join().ok());
}

TEST(AsioExecutor, OfAnIoContextRunsTasksOnTheThreadsThatRunIt) {
  asio::io_context io;
  auto guard = asio::make_work_guard(io);
  std::thread runs([&] { io.run(); });
  {
    GroupExecutor executor({}, io.get_executor(), {.threads = 1});
    const std::thread::id id =
        executor.submit("g", [] { return std::this_thread::get_id(); }).join().value();
    EXPECT_EQ(id, runs.get_id());
    expect_runs_tasks(executor);
  }
  guard.reset();
  runs.join();
}

}  // namespace
}  // namespace keyway
