// `keyway run` as a process: signals, kill -9, pipes, two runs at once.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>
#include <thread>

#include <gtest/gtest.h>

#include "support/started_program.h"
#include "support/temporary_folder.h"

namespace keyway::cli {
namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class RunProcess : public ::testing::Test {
 protected:
  RunProcess() {
    std::string lines;
    for (int n = 1; n <= 4; ++n) lines += "{\"n\":" + std::to_string(n) + "}\n";
    folder.write("orders.jsonl", lines);
  }

  StartedProgram start(std::vector<std::string> words, const std::string& script) {
    words.insert(words.begin(), {KEYWAY_PROGRAM, "run", folder.file("orders.jsonl"), "-j", "1",
                                 "--commit-interval", "10ms"});
    words.insert(words.end(), {"--", "/bin/sh", "-c", script});
    return {std::move(words), folder.file("output")};
  }
  // For a file to be there: with a bound, so that a failure does not hang.
  void wait_for(const std::string& name) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!std::filesystem::exists(folder.file(name))) {
      ASSERT_LT(std::chrono::steady_clock::now(), until) << name << "\n" << folder.read("output");
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  // Logs each record; one that `stays` says so in the file `stays`, and waits for the file `go`.
  std::string script(int stays) const {
    return "cd " + folder.path() + "; echo {.n} >> seen; if [ {.n} = " + std::to_string(stays) +
           " ]; then touch stays; while [ ! -e go ]; do sleep 0.01; done; fi; echo {.n} >> done";
  }

  const TemporaryFolder folder;
};

TEST_F(RunProcess, TheFirstSignalLetsFinishWhatRunsAndTheNextRunGoesOn) {
  for (const int signal : {SIGINT, SIGTERM}) {
    for (const char* const name : {"seen", "done", "stays", "go", "output"}) {
      std::filesystem::remove(folder.file(name));
    }
    StartedProgram first = start({"--fresh"}, script(2));
    wait_for("stays");
    first.send_signal(signal);
    folder.write("go", "");
    EXPECT_EQ(first.wait(), 128 + signal);
    EXPECT_EQ(folder.read("done"), "1\n2\n") << folder.read("output");
    EXPECT_EQ(start({}, script(0)).wait(), 0);
    EXPECT_EQ(folder.read("done"), "1\n2\n3\n4\n");
    EXPECT_TRUE(has(folder.read("output"), "orders.jsonl at line 3: 2 records are done already\n"))
        << folder.read("output");
  }
}

TEST_F(RunProcess, TheSecondSignalEndsWhatRunsAndItsRecordIsLeft) {
  StartedProgram first = start({"--retries", "0"}, script(2));
  wait_for("stays");
  first.send_signal(SIGINT);
  first.send_signal(SIGTERM);
  EXPECT_EQ(first.wait(), 130);
  EXPECT_EQ(folder.read("done"), "1\n");
  EXPECT_FALSE(std::filesystem::exists(folder.file("orders.jsonl.keyway/dead.jsonl")));
  EXPECT_EQ(start({}, script(0)).wait(), 0);
  EXPECT_EQ(folder.read("done"), "1\n2\n3\n4\n");
}

TEST_F(RunProcess, USR1NamesWhatRuns) {
  StartedProgram run = start({}, script(1));
  wait_for("stays");
  run.send_signal(SIGUSR1);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!has(folder.read("output"), "1 running\n  f:1 ")) {
    ASSERT_LT(std::chrono::steady_clock::now(), until) << folder.read("output");
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  folder.write("go", "");
  EXPECT_EQ(run.wait(), 0);
}

TEST_F(RunProcess, AfterAKillNothingIsLostAndWhatWasCommittedDoesNotComeAgain) {
  StartedProgram first = start({}, script(3));
  wait_for("stays");
  // Until what is done is committed: the checkpoint comes with it.
  wait_for("orders.jsonl.keyway/checkpoint");
  first.send_signal(SIGKILL);
  EXPECT_EQ(first.wait(), -SIGKILL);
  EXPECT_EQ(start({}, script(0)).wait(), 0) << folder.read("output");
  std::istringstream text(folder.read("done"));
  std::map<std::string, int> times;
  for (std::string line; std::getline(text, line);) ++times[line];
  EXPECT_EQ(times.size(), 4u) << folder.read("done");
  EXPECT_EQ(times["1"], 1);
}

TEST_F(RunProcess, TwoRunsAtOnceAreRefused) {
  StartedProgram first = start({}, script(1));
  wait_for("stays");
  EXPECT_EQ(start({}, "true").wait(), 5);
  EXPECT_TRUE(has(folder.read("output"), "orders.jsonl.keyway is in use by another run, pid " +
                                             std::to_string(first.pid()) + "\n"))
      << folder.read("output");
  folder.write("go", "");
  EXPECT_EQ(first.wait(), 0);
}

TEST_F(RunProcess, StandardInputNeedsAName) {
  const std::string keyway = std::string("cd ") + folder.path() + "; " + KEYWAY_PROGRAM;
  const auto shell = [&](const std::string& command) {
    return StartedProgram({"/bin/sh", "-c", command}, folder.file("output")).wait();
  };
  EXPECT_EQ(shell(keyway + " run - -- cat < orders.jsonl"), 2);
  EXPECT_TRUE(has(folder.read("output"), "\n  try: --name NAME\n")) << folder.read("output");
  EXPECT_EQ(shell(keyway + " run - --name nightly -j 1 -- cat < orders.jsonl"), 0);
  EXPECT_TRUE(has(folder.read("output"), "{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n{\"n\":4}\n"))
      << folder.read("output");
  EXPECT_TRUE(std::filesystem::exists(folder.file("nightly.keyway/checkpoint")));
  EXPECT_EQ(shell("cat " + folder.file("orders.jsonl") + " | (" + keyway +
                  " run - --name nightly -- false)"),
            0)
      << "all of it is done";
  EXPECT_TRUE(has(folder.read("output"), "all 4 records are done already"))
      << folder.read("output");
}

TEST_F(RunProcess, FollowsAFileUntilItIsTold) {
  StartedProgram run = start({"--follow"}, "cat > /dev/null; touch " + folder.file("n{.n}"));
  wait_for("n4");
  std::ofstream(folder.file("orders.jsonl"), std::ios::app) << "{\"n\":5}\n";
  wait_for("n5");
  run.send_signal(SIGTERM);
  EXPECT_EQ(run.wait(), 143);
}

TEST_F(RunProcess, AFileThatBecomesShorterIsRefused) {
  StartedProgram run = start({"--follow"}, "cat > /dev/null; touch " + folder.file("n{.n}"));
  wait_for("n4");
  std::filesystem::resize_file(folder.file("orders.jsonl"), 3);
  EXPECT_EQ(run.wait(), 5) << folder.read("output");
}

}  // namespace
}  // namespace keyway::cli
