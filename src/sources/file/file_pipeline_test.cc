// A Pipeline that reads files: nothing is lost, twice, or out of order.
#include <atomic>
#include <chrono>
#include <fstream>
#include <map>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>

#include <gtest/gtest.h>

#include "base/mutex.h"
#include "keyway/file_source.h"
#include "keyway/json_keys.h"
#include "keyway/pipeline.h"
#include "keyway/thread_pool.h"
#include "support/temporary_folder.h"

namespace keyway {
namespace {

// What was handled: of each file and key, which lines, in the order in which they ended.
class Handled {
 public:
  void add(const Record& record) {
    MutexLock lock(mutex_);
    lines_[{record.partition, std::string(record.key.value_or("none"))}].push_back(record.number);
    ++count_;
  }
  std::size_t count() {
    MutexLock lock(mutex_);
    return count_;
  }
  // The number of lines, if each was handled once and those of a key in order.
  std::size_t in_order() {
    MutexLock lock(mutex_);
    for (const auto& [key, lines] : lines_) {
      for (std::size_t i = 1; i < lines.size(); ++i) {
        EXPECT_LT(lines[i - 1], lines[i]) << "key " << key.second;
      }
    }
    return count_;
  }

 private:
  Mutex<> mutex_;
  std::map<std::pair<PartitionId, std::string>, std::vector<std::uint64_t>> lines_
      KEYWAY_GUARDED_BY(mutex_);
  std::size_t count_ KEYWAY_GUARDED_BY(mutex_) = 0;
};

void write_orders(const std::string& path, int count, int keys) {
  std::ofstream file(path, std::ios::binary);
  for (int i = 0; i < count; ++i) {
    file << R"({"id":)" << i << R"(,"user":"u)" << i * 7919 % keys << "\"}\n";
    if (i % 100 == 99) file << "\n";
  }
}

PipelineOptions by_user(int concurrency) {
  PipelineOptions options;
  options.concurrency = concurrency;
  options.classify = *json_keys({.key = ".user"});
  options.commit_interval = std::chrono::milliseconds(5);
  return options;
}

TEST(FilePipeline, EachLineIsHandledOnceAndInOrderOfItsKey) {
  const TemporaryFolder folder(memory_folder());
  write_orders(folder.file("a"), 20'000, 97);
  write_orders(folder.file("b"), 10'000, 5);
  const FileSourceOptions files{.paths = {folder.file("a"), folder.file("b")},
                                .checkpoint = folder.file("checkpoint")};
  ThreadPool pool({.threads = 4});
  Handled handled;
  FileSource source(files);
  Pipeline pipeline(source, by_user(8), [&](const Record& record) { handled.add(record); }, pool);
  const Result<PipelineEnd> end = pipeline.run_until();
  ASSERT_TRUE(end.ok()) << end.error().message;
  EXPECT_EQ(end->why, PipelineEnd::kSourceEnded);
  EXPECT_EQ(handled.in_order(), 30'000U);
  EXPECT_EQ(pipeline.stats().left_out, 300U) << "blank lines";
  EXPECT_EQ(source.position().bytes, source.position().total_bytes);
  EXPECT_EQ(source.position().records, 30'300U);

  FileSource again(files);
  Pipeline second(again, by_user(8), [&](const Record& record) { handled.add(record); }, pool);
  ASSERT_TRUE(second.run_until().ok());
  EXPECT_EQ(handled.count(), 30'000U);
  EXPECT_EQ(again.position().resumed_past, 30'300U);
}

TEST(FilePipeline, AfterAStopTheNextRunDoesTheRestAndNothingTwice) {
  const TemporaryFolder folder(memory_folder());
  write_orders(folder.file("a"), 5'000, 31);
  ThreadPool pool({.threads = 4});
  Handled handled;
  int runs = 0;
  for (bool ended = false; !ended; ++runs) {
    FileSource source({.paths = {folder.file("a")}, .checkpoint = folder.file("checkpoint")});
    std::stop_source stop;
    std::atomic<int> left = 700;
    Pipeline pipeline(
        source, by_user(4),
        [&](const Record& record) {
          handled.add(record);
          if (--left == 0) stop.request_stop();
        },
        pool);
    const Result<PipelineEnd> end = pipeline.run_until(stop.get_token());
    ASSERT_TRUE(end.ok()) << end.error().message;
    ended = end->why == PipelineEnd::kSourceEnded;
  }
  EXPECT_EQ(handled.in_order(), 5'000U);
  EXPECT_GE(runs, 2);
}

TEST(FilePipeline, ALineWithoutAKeyEndsItWithThePlace) {
  const TemporaryFolder folder;
  const std::string path = folder.write("a", "{\"user\":1}\n{\"usr\":2}\n");
  FileSource source({.paths = {path}});
  Pipeline pipeline(source, by_user(1), [](const Record&) {});
  const Result<PipelineEnd> end = pipeline.run_until();
  ASSERT_FALSE(end.ok());
  EXPECT_EQ(end.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(end.error().message, path + ":2: no value at .user");
}

TEST(FilePipeline, AFollowedFileIsHandledAsItGrowsUntilItIsStopped) {
  const TemporaryFolder folder;
  const std::string path = folder.write("a", "one\n");
  FileSource source({.paths = {path}, .follow = true, .checkpoint = folder.file("checkpoint")});
  std::stop_source stop;
  std::vector<std::string> values;
  Pipeline pipeline(source, {.order = Order::kPartition}, [&](const Record& record) {
    values.emplace_back(record.value);
    if (record.value == "one") std::ofstream(path, std::ios::app) << "two\nthr";
    if (record.value == "two") std::ofstream(path, std::ios::app) << "ee\n";
    if (record.value == "three") stop.request_stop();
  });
  const Result<PipelineEnd> end = pipeline.run_until(stop.get_token());
  ASSERT_TRUE(end.ok()) << end.error().message;
  EXPECT_EQ(end->why, PipelineEnd::kStopped);
  EXPECT_EQ(values, (std::vector<std::string>{"one", "two", "three"}));
  FileSource again({.paths = {path}, .checkpoint = folder.file("checkpoint")});
  Pipeline rest(again, {}, [&](const Record&) { ADD_FAILURE() << "it was committed"; });
  EXPECT_TRUE(rest.run_until().ok());
}

// If it were looked at only now and then, each of its 80 fillings would wait for that: a second.
TEST(FilePipeline, WhatComesThroughAPipeWaitsForNobody) {
  const TemporaryFolder folder;
  const std::string path = folder.file("pipe");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  constexpr int kLines = 200'000;
  std::thread writer([&] { write_orders(path, kLines, 1000); });
  FileSource source({.paths = {path}});
  std::atomic<int> count = 0;
  Pipeline pipeline(source, by_user(4), [&](const Record&) { ++count; });
  const auto begin = std::chrono::steady_clock::now();
  const Result<PipelineEnd> end = pipeline.run_until();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  writer.join();
  ASSERT_TRUE(end.ok()) << end.error().message;
  EXPECT_EQ(count, kLines);
  EXPECT_LT(took.count(), 30);
}

}  // namespace
}  // namespace keyway
