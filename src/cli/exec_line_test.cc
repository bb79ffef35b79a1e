// `keyway exec` in many processes: who runs, who waits, in which order.
#include <csignal>

#include "cli/exec_fixture.h"

namespace keyway::cli {
namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class ExecLine : public ExecProgram {};

TEST_F(ExecLine, FiftyCommandsRunThreeAtATimeInTheOrderTheyCame) {
  constexpr int kCommands = 50;
  constexpr int kLimit = 3;
  std::vector<StartedProgram> all;
  for (int i = 0; i < kCommands; ++i) {
    const std::string id = std::to_string(i);
    all.push_back(start({"--limit", std::to_string(kLimit)}, gated_probe(kLimit, id)));
    // The next one comes when this one runs or stands in line.
    ASSERT_TRUE(i < kLimit ? wait_for_log("begin " + id) : wait_for_line(i - kLimit + 1));
  }
  std::string expected = "begin 0\nbegin 1\nbegin 2\n";
  for (int i = 0; i < kCommands; ++i) {
    ASSERT_EQ(place.read("log"), expected);
    open_gate(std::to_string(i));
    EXPECT_EQ(all[static_cast<std::size_t>(i)].wait(), 0);
    expected += "end " + std::to_string(i) + "\n";
    const int next = i + kLimit;
    if (next >= kCommands) continue;
    ASSERT_TRUE(wait_for_log("begin " + std::to_string(next)));
    expected += "begin " + std::to_string(next) + "\n";
  }
  EXPECT_EQ(place.read("log"), expected);
  EXPECT_FALSE(exceeded());
  EXPECT_FALSE(has_key_file());
}

TEST_F(ExecLine, AStormOfCommandsNeverExceedsTheLimitAndAllRun) {
  constexpr int kCommands = 60;
  std::vector<StartedProgram> all;
  for (int i = 0; i < kCommands; ++i) {
    all.push_back(start({"--limit", "3"}, probe(3, std::to_string(i), {"ms=2"})));
  }
  for (StartedProgram& program : all) EXPECT_EQ(program.wait(), 0);
  EXPECT_FALSE(exceeded());
  EXPECT_FALSE(has_key_file());
}

TEST_F(ExecLine, NoWaitTakesEveryFreeSlotAtOnce) {
  std::vector<StartedProgram> all;
  for (int i = 0; i < 3; ++i) {
    all.push_back(start({"--limit", "3", "--no-wait"}, probe(3, std::to_string(i), {"together"})));
  }
  for (StartedProgram& program : all) EXPECT_EQ(program.wait(), 0);
}

TEST_F(ExecLine, AFullKeyIsReportedWithItsHolders) {
  StartedProgram holder = start({}, gated_probe(1, "a"));
  ASSERT_TRUE(wait_for_log("begin a"));
  EXPECT_EQ(run({"--no-wait"}, probe(1, "b")), 75);
  EXPECT_TRUE(has(output(), "keyway: key \"k\" is full: 1 of 1 held by pid ")) << output();
  EXPECT_TRUE(has(output(), " (keyway_exec_probe, 0s)\n  try: --wait 5m\n")) << output();
  EXPECT_EQ(run({"--wait", "10ms"}, probe(1, "b")), 75);
  EXPECT_EQ(run({"--wait", "0"}, probe(1, "b")), 75);
  open_gate("a");
  EXPECT_EQ(holder.wait(), 0);
  EXPECT_EQ(run({"--no-wait"}, probe(1, "b")), 0);
  EXPECT_FALSE(has_key_file());
}

TEST_F(ExecLine, EachComesWithItsOwnLimitAndIsNotOvertaken) {
  StartedProgram a = start({"--limit", "2"}, gated_probe(3, "a"));
  StartedProgram b = start({"--limit", "2"}, gated_probe(3, "b"));
  ASSERT_TRUE(wait_for_log("begin a"));
  ASSERT_TRUE(wait_for_log("begin b"));
  EXPECT_EQ(run({"--limit", "2", "--no-wait"}, probe(3, "x")), 75);
  EXPECT_EQ(run({"--limit", "3", "--no-wait"}, probe(3, "y")), 0);
  // It waits until it is alone; one that had room must not go before it.
  StartedProgram alone = start({"--limit", "1"}, probe(1, "alone"));
  ASSERT_TRUE(wait_for_line(1));
  EXPECT_EQ(run({"--limit", "3", "--no-wait"}, probe(3, "z")), 75);
  EXPECT_TRUE(has(output(), "; 1 waiting in front\n  try: ")) << output();
  open_gate("a");
  open_gate("b");
  EXPECT_EQ(alone.wait(), 0);
  EXPECT_FALSE(exceeded());
  EXPECT_FALSE(has(place.read("log"), "begin z"));
}

TEST_F(ExecLine, OneThatDiesInTheMiddleOfTheLineHoldsUpNobody) {
  StartedProgram holder = start({}, gated_probe(1, "a"));
  ASSERT_TRUE(wait_for_log("begin a"));
  std::vector<StartedProgram> waiting;
  for (int i = 0; i < 4; ++i) {
    waiting.push_back(start({}, probe(1, std::to_string(i))));
    ASSERT_TRUE(wait_for_line(i + 1));
  }
  for (const std::size_t dead : {2U, 0U}) {
    waiting[dead].send_signal(SIGKILL);
    EXPECT_EQ(waiting[dead].wait(), -SIGKILL);
  }
  open_gate("a");
  EXPECT_EQ(waiting[1].wait(), 0);
  EXPECT_EQ(waiting[3].wait(), 0);
  EXPECT_EQ(place.read("log"), "begin a\nend a\nbegin 1\nend 1\nbegin 3\nend 3\n");
  EXPECT_FALSE(has_key_file());
}

TEST_F(ExecLine, SignalsAndTheEndOfItsTimeTakeAWaitingOneOutOfTheLine) {
  StartedProgram holder = start({}, gated_probe(1, "a"));
  ASSERT_TRUE(wait_for_log("begin a"));
  StartedProgram first = start({}, probe(1, "first"));
  ASSERT_TRUE(wait_for_line(1));
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    StartedProgram second = start({}, probe(1, "second"));
    ASSERT_TRUE(wait_for_line(2));
    second.send_signal(number);
    EXPECT_EQ(second.wait(), 128 + number);
    ASSERT_TRUE(wait_for_line(1));
  }
  EXPECT_EQ(run({"--wait", "10ms"}, probe(1, "second")), 75);
  EXPECT_TRUE(has(output(), "; 1 waiting in front\n")) << output();
  first.send_signal(SIGTERM);  // the one that waits for a slot, not for others
  EXPECT_EQ(first.wait(), 128 + SIGTERM);
  open_gate("a");
  EXPECT_EQ(holder.wait(), 0);
  EXPECT_EQ(place.read("log"), "begin a\nend a\n");
  EXPECT_FALSE(has_key_file());
}

}  // namespace
}  // namespace keyway::cli
