// `keyway run` killed at random moments, with each kind of handler, and started again until it is through: nothing is
// lost, keys keep their order, and what a checkpoint says is done is not handled again.
#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "handlers/http_test_server.h"
#include "sources/file/checkpoint.h"
#include "support/memory.h"
#include "support/started_program.h"
#include "support/temporary_folder.h"

namespace keyway::cli {
namespace {

using Words = std::vector<std::string>;

constexpr int kRecords = 400;
constexpr int kKeys = 20;
constexpr int kKills = kSanitized ? 10 : 67;  // of each kind of handler

// Which records were handled, in order, by each run.
using Handled = std::map<int, std::vector<int>>;

struct Totals {
  int kills = 0;
  int finished = 0;  // files that were gone through
  int handled = 0;
  int again = 0;  // of these, those that had been handled before
  int lost = 0;
  int covered = 0;  // records that a checkpoint had at a kill
  int covered_again = 0;
};

// One file, from its first record to its last, however often its run is killed.
class OneFile {
 public:
  OneFile(std::mt19937_64& random, Totals& totals) : random_(random), totals_(totals) {
    std::string text;
    for (int seq = 1; seq <= kRecords; ++seq) {
      begins_.push_back(static_cast<Offset>(text.size()));
      // A few keys have most of the records.
      keys_.push_back(static_cast<int>(std::min(random_() % kKeys, random_() % kKeys)));
      text += "{\"user\":\"u" + std::to_string(keys_.back()) + "\",\"n\":" + std::to_string(seq) +
              "}\n";
    }
    folder_.write("orders.jsonl", text);
  }

  std::string log() const { return folder_.file("log"); }
  void set_handled(Handled handled) { handled_ = std::move(handled); }

  // `command`: what follows the options, for the run of that number.
  template <class Command>
  void run_until_done(Command command) {
    for (int number = 0;; ++number) {
      ASSERT_LT(number, 1000) << "it comes to no end";
      covered_.push_back(covered_now());
      Words words = {KEYWAY_PROGRAM, "run",        folder_.file("orders.jsonl"),
                     "--key",        ".user",      "--commit-interval",
                     "10ms",         "--progress", "none",
                     "-j",           "4"};
      for (std::string& word : command(number)) words.push_back(std::move(word));
      StartedProgram program(words, folder_.file("said"));
      if (totals_.kills < kKills) {
        const std::uint64_t most = 20 + 250 * (random_() % 2);
        std::this_thread::sleep_for(std::chrono::milliseconds(random_() % most));
        program.send_signal(SIGKILL);
      }
      const int status = program.wait();
      if (status == 0) break;
      ASSERT_EQ(status, -SIGKILL) << folder_.read("said");
      ++totals_.kills;
      totals_.covered += static_cast<int>(covered_now().size());
    }
    ++totals_.finished;
  }

  void read_log() {
    std::ifstream log(folder_.file("log"));
    int run = 0;
    for (int seq = 0; log >> run >> seq;) handled_[run].push_back(seq);
  }

  void check() {
    std::set<int> seen;
    for (const auto& [run, records] : handled_) {
      const std::set<int>& covered = covered_.at(static_cast<std::size_t>(run));
      std::map<int, int> last;
      for (const int seq : records) {
        int& before = last[keys_[static_cast<std::size_t>(seq - 1)]];
        EXPECT_LT(before, seq) << "out of order in run " << run;
        before = seq;
        EXPECT_FALSE(covered.contains(seq)) << seq << " was done already before run " << run;
        totals_.covered_again += covered.contains(seq) ? 1 : 0;
        ++totals_.handled;
        totals_.again += seen.insert(seq).second ? 0 : 1;
      }
    }
    EXPECT_EQ(seen.size(), static_cast<std::size_t>(kRecords)) << "records are lost";
    totals_.lost += kRecords - static_cast<int>(seen.size());
  }

 private:
  // The records that the checkpoint says are done.
  std::set<int> covered_now() const {
    std::set<int> covered;
    const auto checkpoint = read_checkpoint(folder_.file("orders.jsonl.keyway/checkpoint"));
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.error().message;
    if (!checkpoint.ok() || !*checkpoint) return covered;
    const Checkpoint::File& file = (**checkpoint).files.at(0);
    for (int seq = 1; seq <= kRecords; ++seq) {
      const Offset begin = begins_[static_cast<std::size_t>(seq - 1)];
      if (begin < file.watermark || contains(file.done_above, begin)) covered.insert(seq);
    }
    return covered;
  }

  std::mt19937_64& random_;
  Totals& totals_;
  const TemporaryFolder folder_;
  std::vector<Offset> begins_;
  std::vector<int> keys_;
  std::vector<std::set<int>> covered_;  // when each run began
  Handled handled_;
};

class RunCrash : public ::testing::Test {
 protected:
  RunCrash() { std::cout << "seed " << seed_ << '\n'; }
  ~RunCrash() override {
    std::cout << totals_.kills << " kills, " << totals_.finished << " files of " << kRecords
              << " records; " << totals_.lost << " lost, " << totals_.handled << " handled, "
              << totals_.again << " of them again, " << totals_.covered_again << " of the "
              << totals_.covered << " that a checkpoint covered at a kill\n";
  }

  // A log of what processes or workers have handled.
  void run_probe(const char* kind, const Words& options) {
    while (totals_.kills < kKills && !HasFailure()) {
      OneFile file(random_, totals_);
      file.run_until_done([&](int number) {
        Words words = options;
        for (const std::string& word : {std::string("--"), std::string(KEYWAY_RUN_PROBE),
                                        std::string(kind), file.log(), std::to_string(number)}) {
          words.push_back(word);
        }
        return words;
      });
      file.read_log();
      file.check();
    }
  }

  const std::uint64_t seed_ = std::random_device()();
  std::mt19937_64 random_{seed_};
  Totals totals_;
};

TEST_F(RunCrash, WithAProcessForEachRecordLosesNothing) { run_probe("process", {}); }

TEST_F(RunCrash, WithWorkersLosesNothing) { run_probe("worker", {"--worker"}); }

TEST_F(RunCrash, WithAServerLosesNothing) {
  // By the number of the file. A request of a run that was killed may be served when its file is finished already.
  std::mutex mutex;
  std::map<int, Handled> handled;
  run::HttpTestServer server([&](const run::HttpTestServer::Request& request) {
    const std::string target(request.target());  // "/2/3" for run 3 of file 2
    const std::string id(request["Keyway-Id"]);  // "f:17" for line 17
    const int file = std::stoi(target.substr(1));
    const int run = std::stoi(target.substr(target.rfind('/') + 1));
    const int seq = std::stoi(id.substr(id.find(':') + 1));
    std::this_thread::sleep_for(std::chrono::microseconds(seq * 7919 % 1000));
    const std::lock_guard lock(mutex);
    handled[file][run].push_back(seq);
    return run::HttpTestServer::Reply{};
  });
  for (int number = 0; totals_.kills < kKills && !HasFailure(); ++number) {
    OneFile file(random_, totals_);
    file.run_until_done([&](int run) {
      return Words{"--http", server.url("/" + std::to_string(number) + "/" + std::to_string(run))};
    });
    {
      const std::lock_guard lock(mutex);
      file.set_handled(handled[number]);
    }
    file.check();
  }
}

}  // namespace
}  // namespace keyway::cli
