#include "process/fake_processes.h"

#include <csignal>

#include <gtest/gtest.h>

#include "keyway/testing/sim_scheduler.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;

struct Text final : OutputListener {
  void output(Stream stream, std::string_view part) override {
    (stream == Stream::kOut ? out : err) += part;
  }
  std::string out, err;
};

Task<ProcessExit> run(Processes& processes, Command command, Text& text) {
  ProcessWait wait(text);
  const auto process = processes.start(command, wait);
  co_return co_await wait;
}

TEST(FakeProcesses, ACoroutineWaitsForTheExitInVirtualTime) {
  testing::SimScheduler sim;
  FakeProcesses processes(sim, [](const Command& command) {
    return FakeProcess{.runs_for = 10min, .status = 4, .out = command.argv[1], .err = "e"};
  });
  Text text;
  const TimePoint start = sim.now();
  const ProcessExit exit = sync_wait(sim, run(processes, {.argv = {"echo", "hi"}}, text));
  EXPECT_EQ(exit.status, 4);
  EXPECT_EQ(text.out, "hi");
  EXPECT_EQ(text.err, "e");
  EXPECT_EQ(sim.now() - start, 10min);
  EXPECT_EQ(processes.running(), 0);
}

TEST(FakeProcesses, AnEndingIsATermThenAKill) {
  testing::SimScheduler sim;
  FakeProcesses processes(
      sim, [](const Command&) { return FakeProcess{.runs_for = 1h, .ignores_term = true}; });
  Text text;
  ProcessWait wait(text);
  const auto process = processes.start({.argv = {"x"}}, wait);
  ProcessEnding ending(sim, *process);
  const TimePoint start = sim.now();
  ending.begin(30s);
  ending.begin(30s);
  sim.run_until_idle();
  EXPECT_EQ(sim.now() - start, 30s);
  EXPECT_TRUE(wait.await_ready());
  EXPECT_EQ(wait.await_resume().signal, SIGKILL);
  ASSERT_EQ(processes.signals().size(), 3u);
  EXPECT_EQ(processes.signals()[0].signal, SIGTERM);
  EXPECT_EQ(processes.signals()[1].signal, SIGCONT);
  EXPECT_EQ(processes.signals()[2].signal, SIGKILL);
}

TEST(FakeProcesses, OneThatExitsAtTheTermNeedsNoKill) {
  testing::SimScheduler sim;
  FakeProcesses processes(sim, [](const Command&) { return FakeProcess{.runs_for = 1h}; });
  Text text;
  ProcessWait wait(text);
  const auto process = processes.start({.argv = {"x"}}, wait);
  {
    ProcessEnding ending(sim, *process);
    ending.begin(30s);
    sim.advance(1s);
  }
  sim.run_until_idle();
  EXPECT_EQ(wait.await_resume().signal, SIGTERM);
  EXPECT_EQ(processes.signals().size(), 2u);
}

TEST(FakeProcesses, OneThatTakesInputAnswersItInItsTime) {
  testing::SimScheduler sim;
  FakeProcesses processes(sim, [](const Command&) {
    return FakeProcess{.runs_for = 24h, .on_input = [](FakeStdio& stdio, std::string_view text) {
                         if (text.empty()) return stdio.exit(7, 1s);
                         stdio.write(Stream::kOut, "<" + std::string(text) + ">", 5ms);
                       }};
  });
  Text text;
  ProcessWait wait(text);
  const auto process = processes.start({.argv = {"x"}, .takes_input = true}, wait);
  process->write_input("a");
  process->write_input("b");
  EXPECT_EQ(text.out, "");
  sim.advance(5ms);
  EXPECT_EQ(text.out, "<a><b>");
  process->close_input();
  const TimePoint closed = sim.now();
  sim.run_until_idle();
  EXPECT_EQ(sim.now() - closed, 1s);
  EXPECT_EQ(wait.await_resume().status, 7);
  EXPECT_EQ(processes.inputs(), std::vector<std::string>{"ab"});
}

}  // namespace
}  // namespace keyway
