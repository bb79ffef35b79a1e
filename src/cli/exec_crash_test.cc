// `keyway exec` when it, or its command, is killed.
#include <algorithm>
#include <csignal>
#include <random>
#include <span>
#include <thread>

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "cli/exec_fixture.h"

namespace keyway::cli {
namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class ExecCrash : public ExecProgram {
 protected:
  // Only if it is still the child of one of these: the id may be somebody else's by now.
  static void kill_command(int pid, std::span<const StartedProgram> programs) {
    const FileDescriptor process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    std::ifstream status("/proc/" + std::to_string(pid) + "/status");
    for (std::string line; std::getline(status, line);) {
      if (!line.starts_with("PPid:\t")) continue;
      const int parent = std::stoi(line.substr(6));
      if (std::ranges::find(programs, parent, &StartedProgram::pid) == programs.end()) return;
      syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0);
    }
  }
  // The command that the key file names as the holder of a slot; 0: none yet.
  int holder_pid(int slot) { return key_file().record(slot).command_pid; }

  // They wait for a command whose keyway was killed, and that is on its way out.
  void expect_no_slot_is_lost(int limit) {
    std::filesystem::remove(place.file("log"));
    std::vector<StartedProgram> all;
    for (int i = 0; i < limit; ++i) {
      all.push_back(start({"--limit", std::to_string(limit), "--wait", "1m"},
                          probe(limit, "last" + std::to_string(i), {"together"})));
    }
    for (StartedProgram& program : all) EXPECT_EQ(program.wait(), 0);
    EXPECT_FALSE(has_key_file());
  }
};

TEST_F(ExecCrash, KillingTheCommandFreesItsSlot) {
  StartedProgram holder = start({}, gated_probe(1, "a"));
  ASSERT_TRUE(wait_for_log("begin a"));
  StartedProgram waiting = start({}, probe(1, "b"));
  ASSERT_TRUE(wait_for_line(1));
  kill_command(holder_pid(0), {&holder, 1});
  EXPECT_EQ(holder.wait(), 128 + SIGKILL);
  EXPECT_EQ(waiting.wait(), 0);
  EXPECT_FALSE(exceeded());
  EXPECT_FALSE(has_key_file());
}

TEST_F(ExecCrash, KillingKeywayEndsTheCommandAndFreesItsSlot) {
  StartedProgram holder = start({}, gated_probe(1, "a"));
  ASSERT_TRUE(wait_for_log("begin a"));
  StartedProgram waiting = start({}, probe(1, "b"));
  ASSERT_TRUE(wait_for_line(1));
  holder.send_signal(SIGKILL);
  EXPECT_EQ(holder.wait(), -SIGKILL);
  EXPECT_EQ(waiting.wait(), 0);
  EXPECT_FALSE(has(place.read("log"), "end a"));
  EXPECT_FALSE(exceeded());
  EXPECT_FALSE(has_key_file());
}

TEST_F(ExecCrash, WhatAKilledCommandStartedKeepsTheSlotUntilItIsGone) {
  Words inner = gated_probe(1, "a");
  Words command = {"/bin/sh", "-c", "\"$@\" & wait", "sh"};
  command.insert(command.end(), inner.begin(), inner.end());
  // The shell becomes this process's child, and can be waited for.
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  StartedProgram holder = start({}, command);
  ASSERT_TRUE(wait_for_log("begin a"));
  const int shell = holder_pid(0);
  holder.send_signal(SIGKILL);
  EXPECT_EQ(holder.wait(), -SIGKILL);
  ASSERT_EQ(waitpid(shell, nullptr, 0), shell);
  prctl(PR_SET_CHILD_SUBREAPER, 0);
  EXPECT_EQ(run({"--no-wait"}, probe(1, "b")), 75);
  EXPECT_TRUE(has(output(), " (sh, 0s, ended, but what it started goes on)\n")) << output();
  StartedProgram waiting = start({}, probe(1, "c"));
  ASSERT_TRUE(wait_for_line(1));
  open_gate("a");
  EXPECT_EQ(waiting.wait(), 0);
  EXPECT_FALSE(exceeded());
}

TEST_F(ExecCrash, WhatIsLeftInTheBackgroundDoesNotKeepTheSlot) {
  Words inner = gated_probe(2, "a");
  Words command = {"/bin/sh", "-c", "\"$@\" & exit 4", "sh"};
  command.insert(command.end(), inner.begin(), inner.end());
  EXPECT_EQ(run({}, command), 4);
  ASSERT_TRUE(wait_for_log("begin a"));
  EXPECT_EQ(run({"--no-wait"}, probe(2, "b")), 0);
  open_gate("a");
  ASSERT_TRUE(wait_for_log("end a"));
}

TEST_F(ExecCrash, ACommandThatClosesItsDescriptorsKeepsItsSlot) {
  mkfifo(place.file("gate.a").c_str(), 0600);
  StartedProgram holder = start({}, probe(1, "a", {"closes", "gate"}));
  ASSERT_TRUE(wait_for_log("begin a"));
  EXPECT_EQ(run({"--no-wait"}, probe(1, "b")), 75);
  open_gate("a");
  EXPECT_EQ(holder.wait(), 0);
  EXPECT_EQ(run({"--no-wait"}, probe(1, "b")), 0);
}

// KEYWAY_SEED=N repeats one round; the moment of the kill is the machine's, what is killed is not.
class ExecRandomKills : public ExecCrash, public ::testing::WithParamInterface<std::uint64_t> {};

TEST_P(ExecRandomKills, NeverExceedTheLimitNorLoseASlot) {
  constexpr std::uint64_t kRounds = 25;
  const char* const given = std::getenv("KEYWAY_SEED");
  const std::uint64_t first = given != nullptr ? std::stoull(given) : GetParam() * kRounds;
  for (std::uint64_t seed = first; seed < first + (given != nullptr ? 1 : kRounds); ++seed) {
    SCOPED_TRACE("KEYWAY_SEED=" + std::to_string(seed));
    std::mt19937_64 random(seed);
    const auto below = [&](std::uint64_t bound) { return random() % bound; };
    const int limit = 1 + static_cast<int>(below(3));
    std::vector<StartedProgram> all;
    const std::uint64_t count = 4 + below(3);
    for (std::uint64_t i = 0; i < count; ++i) {
      all.push_back(start({"--limit", std::to_string(limit)},
                          probe(limit, std::to_string(i), {"ms=" + std::to_string(1 + below(5))})));
    }
    for (int kills = 0; kills < 3; ++kills) {
      std::this_thread::sleep_for(std::chrono::microseconds(below(6000)));
      if (below(2) == 0) {
        all[below(count)].send_signal(SIGKILL);
      } else if (const int command = has_key_file() ? holder_pid(static_cast<int>(below(3))) : 0;
                 command > 0) {
        kill_command(command, all);
      }
    }
    for (StartedProgram& program : all) {
      const int status = program.wait();
      EXPECT_TRUE(status == 0 || status == -SIGKILL || status == 128 + SIGKILL) << status;
    }
    expect_no_slot_is_lost(limit);
    ASSERT_FALSE(exceeded());
    if (HasFailure()) return;
  }
}
INSTANTIATE_TEST_SUITE_P(Part, ExecRandomKills, ::testing::Values(0, 1, 2, 3));

}  // namespace
}  // namespace keyway::cli
