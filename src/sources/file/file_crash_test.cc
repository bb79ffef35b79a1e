// A process that is killed at random moments, again and again, until all lines of a file are handled.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "keyway/file_source.h"
#include "keyway/json_keys.h"
#include "keyway/pipeline.h"
#include "sources/file/checkpoint.h"
#include "support/memory.h"
#include "support/temporary_folder.h"

namespace keyway {
namespace {

constexpr int kLines = 3000;
constexpr int kKeys = 40;
constexpr int kKills = 30;

class CrashTest : public testing::Test {
 protected:
  // What was handled, in that order: each key's lines count from 0.
  struct Entry {
    int key = 0;
    int place = 0;  // of its key
    Offset offset = 0;
  };

  void write_file() {
    std::ofstream file(path_, std::ios::binary);
    std::map<int, int> places;
    for (int i = 0; i < kLines; ++i) {
      // Some keys have much more than others.
      const int key = static_cast<int>(std::min(random_() % kKeys, random_() % kKeys));
      file << R"({"key":")" << key << R"(","place":)" << places[key]++ << "}\n";
    }
  }

  // In a process of its own: 0 when all is done.
  int process() const {
    const int log = open(log_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    FileSource source({.paths = {path_}, .checkpoint = checkpoint_});
    PipelineOptions options;
    options.concurrency = 8;
    options.classify = *json_keys({.key = ".key"});
    options.commit_interval = std::chrono::milliseconds(1);
    Pipeline pipeline(source, options, [log](const Record& record) {
      const std::size_t place = record.value.rfind(':') + 1;
      std::string line = std::string(*record.key) + " " +
                         std::string(record.value.substr(place, record.value.size() - place - 1)) +
                         " " + std::to_string(record.offset) + "\n";
      if (write(log, line.data(), line.size()) != static_cast<ssize_t>(line.size())) std::abort();
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    });
    const Result<PipelineEnd> end = pipeline.run_until();
    if (!end) std::fprintf(stderr, "%s\n", end.error().message.c_str());
    return end.ok() ? 0 : 1;
  }

  // Kills it after a while. True if it was done before.
  bool run_and_kill() {
    const pid_t child = fork();
    if (child == 0) _exit(process());
    std::this_thread::sleep_for(std::chrono::microseconds(500 + random_() % longest_life_us_));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(!WIFEXITED(status) || WEXITSTATUS(status) == 0);
    return WIFEXITED(status);
  }

  std::vector<Entry> logged(std::size_t from) const {
    std::ifstream log(log_);
    std::vector<Entry> entries;
    for (Entry entry; log >> entry.key >> entry.place >> entry.offset;) entries.push_back(entry);
    entries.erase(entries.begin(),
                  entries.begin() + static_cast<std::ptrdiff_t>(std::min(from, entries.size())));
    return entries;
  }

  std::mt19937_64 random_{std::random_device()()};
  const TemporaryFolder folder_{memory_folder()};
  const std::string path_ = folder_.file("lines");
  const std::string log_ = folder_.file("log");
  const std::string checkpoint_ = folder_.file("checkpoint");
  const std::uint64_t longest_life_us_ = kSanitized ? 150'000 : 40'000;
};

TEST_F(CrashTest, NothingIsLostOrOutOfOrderAndOnlyWhatNoCommitCoversIsDoneAgain) {
  int kills = 0;
  std::size_t again = 0;
  std::size_t handled = 0;
  for (int files = 0; kills < kKills; ++files) {
    ASSERT_LT(files, 100);
    std::filesystem::remove(log_);
    std::filesystem::remove(checkpoint_);
    write_file();
    std::map<int, int> next;  // of each key, the first that was never handled
    std::size_t known = 0;
    for (bool done = false; !done;) {
      const Result<std::optional<Checkpoint>> before = read_checkpoint(checkpoint_);
      ASSERT_TRUE(before.ok()) << before.error().message;
      done = run_and_kill();
      kills += done ? 0 : 1;
      std::map<int, int> last;  // of each key, in this run
      for (const Entry& entry : logged(known)) {
        ++known;
        // The bound on what is done twice.
        if (before->has_value()) {
          const Checkpoint::File& stored = (*before)->files.front();
          ASSERT_GE(entry.offset, stored.watermark);
          ASSERT_FALSE(contains(stored.done_above, entry.offset));
        }
        ASSERT_LE(entry.place, next[entry.key]) << "key " << entry.key << ": one was left out";
        const auto [found, is_first] = last.try_emplace(entry.key, entry.place);
        if (!is_first) {
          ASSERT_GT(entry.place, found->second) << "key " << entry.key << ": out of order";
        }
        found->second = entry.place;
        again += entry.place < next[entry.key] ? 1 : 0;
        next[entry.key] = std::max(next[entry.key], entry.place + 1);
      }
    }
    int all = 0;
    for (const auto& [key, count] : next) all += count;
    ASSERT_EQ(all, kLines) << "lost";
    handled += known;
  }
  std::printf("killed %d times: %zu lines handled, %zu of them again\n", kills, handled, again);
}

}  // namespace
}  // namespace keyway
