#include "process/system_processes.h"

#include <csignal>
#include <functional>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "support/temporary_folder.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;

struct Log final : ProcessEvents {
  void output(Stream stream, std::string_view text) override {
    (stream == Stream::kOut ? out : err) += text;
    bytes += text.size();
    if (keeps_nothing) out.clear();
    if (on_output) on_output();
  }
  void exited(ProcessExit how) override {
    EXPECT_FALSE(has_exited);
    has_exited = true;
    exit = std::move(how);
  }
  std::string out, err;
  std::size_t bytes = 0;
  bool keeps_nothing = false;
  bool has_exited = false;
  ProcessExit exit;
  std::function<void()> on_output;
};

struct House {
  EventLoop loop;
  SystemProcesses processes{loop, 8};

  void run(const Command& command, Log& log) {
    const auto process = processes.start(command, log);
    EXPECT_FALSE(log.has_exited) << "never from within start()";
    wait(log);
  }
  void wait(Log& log) {
    while (!log.has_exited && loop.run_one()) {
    }
    EXPECT_TRUE(log.has_exited);
  }
};

TEST(SystemProcesses, TellOutputThenExit) {
  House house;
  Log log;
  house.run({.argv = {"/bin/sh", "-c", "echo out; echo err >&2; exit 3"}}, log);
  EXPECT_EQ(log.out, "out\n");
  EXPECT_EQ(log.err, "err\n");
  EXPECT_EQ(log.exit.status, 3);
  EXPECT_EQ(log.exit.signal, 0);
}

TEST(SystemProcesses, TellTheSignalThatEndedAProcess) {
  House house;
  Log log;
  house.run({.argv = {"/bin/sh", "-c", "kill -USR2 $$"}}, log);
  EXPECT_EQ(log.exit.signal, SIGUSR2);
}

TEST(SystemProcesses, ACommandThatCannotStartExitsSo) {
  House house;
  Log log;
  house.run({.argv = {"no-such-program-here"}}, log);
  EXPECT_EQ(log.exit.status, 127);
  EXPECT_NE(log.exit.failure.find("no-such-program-here"), std::string::npos);
}

TEST(SystemProcesses, DestroyingOneThatCouldNotStartIsSilent) {
  House house;
  Log log;
  house.processes.start({.argv = {"no-such-program-here"}}, log).reset();
  EXPECT_FALSE(house.loop.run_one());
  EXPECT_FALSE(log.has_exited);
}

TEST(SystemProcesses, ReadNothingFromStandardInput) {
  House house;
  Log log;
  house.run({.argv = {"cat"}}, log);
  EXPECT_EQ(log.out, "");
  EXPECT_EQ(log.exit.status, 0);
}

TEST(SystemProcesses, ACommandsOwnEnvironmentComesBeforeThePrograms) {
  setenv("KEYWAY_TEST_FRUIT", "apple", 1);
  setenv("KEYWAY_TEST_BERRY", "blue", 1);
  House house;
  Log log;
  house.run({.argv = {"/bin/sh", "-c", "echo $KEYWAY_TEST_FRUIT $KEYWAY_TEST_BERRY"},
             .environment = {"KEYWAY_TEST_FRUIT=pear"}},
            log);
  EXPECT_EQ(log.out, "pear blue\n");
}

TEST(SystemProcesses, AHundredMegabytesPassWithoutLoss) {
  House house;
  Log log;
  log.keeps_nothing = true;
  house.run({.argv = {"head", "-c", "100000000", "/dev/zero"}}, log);
  EXPECT_EQ(log.bytes, 100'000'000u);
}

TEST(SystemProcesses, OutputThatGoesNowhereIsNotToldOf) {
  House house;
  Log log;
  house.run({.argv = {"echo", "x"}, .captures_output = false}, log);
  EXPECT_EQ(log.bytes, 0u);
  EXPECT_EQ(log.exit.status, 0);
}

TEST(SystemProcesses, AGrandchildThatKeepsThePipeOpenHoldsUpNobody) {
  House house;
  Log log;
  // The grandchild says who it is, so that it can be ended here.
  house.run({.argv = {"/bin/sh", "-c", "sleep 1000 & echo $!"}}, log);
  EXPECT_EQ(log.exit.status, 0);
  const int grandchild = std::stoi(log.out);
  EXPECT_EQ(kill(grandchild, SIGKILL), 0) << "it was still there";
}

TEST(SystemProcesses, ASignalReachesTheWholeGroup) {
  House house;
  Log log;
  const auto process =
      house.processes.start({.argv = {"/bin/sh", "-c", "sleep 1000; echo never"}}, log);
  process->send_signal(SIGTERM);
  house.wait(log);
  EXPECT_EQ(log.exit.signal, SIGTERM);
  EXPECT_EQ(log.out, "");
}

TEST(SystemProcesses, OneThatIgnoresSigtermIsKilledAfterTheGrace) {
  House house;
  Log log;
  const auto process = house.processes.start(
      {.argv = {"/bin/sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1000; done"}}, log);
  ProcessEnding ending(house.loop, *process);
  log.on_output = [&] { ending.begin(20ms); };
  house.wait(log);
  EXPECT_EQ(log.exit.signal, SIGKILL);
}

TEST(SystemProcesses, WhatIsLeftOfAGroupThatWasEndedIsKilledToo) {
  House house;
  Log log;
  // The shell goes at SIGTERM, its child ignores it.
  const auto process = house.processes.start(
      {.argv = {"/bin/sh", "-c", "(trap '' TERM; exec sleep 1000) & echo $!; wait"}}, log);
  ProcessEnding ending(house.loop, *process);
  FileDescriptor grandchild;
  log.on_output = [&] {
    grandchild = FileDescriptor(static_cast<int>(syscall(SYS_pidfd_open, std::stoi(log.out), 0)));
    ending.begin(1h);
  };
  house.wait(log);
  ASSERT_TRUE(grandchild.is_open());
  pollfd ended{.fd = grandchild.get(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&ended, 1, 30'000), 1);
}

TEST(SystemProcesses, PausedOutputWaitsInThePipe) {
  House house;
  Log log;
  // The process writes more than the pipe holds, so it cannot exit until somebody reads.
  const auto process = house.processes.start({.argv = {"head", "-c", "300000", "/dev/zero"}}, log);
  process->pause_output();
  struct Resume final : Timer {
    explicit Resume(Process& paused) : process(paused) {}
    void fire() override { process.resume_output(); }
    Process& process;
  } resume(*process);
  house.loop.add_timer(resume, house.loop.now() + 5ms);
  ASSERT_TRUE(house.loop.run_one());
  EXPECT_FALSE(log.has_exited);
  house.wait(log);
  EXPECT_EQ(log.bytes, 300'000u);
}

TEST(SystemProcesses, DestroyingARunningProcessEndsIt) {
  House house;
  Log log;
  auto process = house.processes.start({.argv = {"sleep", "1000"}}, log);
  const int pid = process->pid();
  process.reset();
  EXPECT_EQ(kill(pid, 0), -1);
  EXPECT_FALSE(log.has_exited);
}

// A program that starts a shell which starts a sleep, is killed by SIGKILL, and leaves nothing
// behind.
TEST(SystemProcesses, NothingGoesOnAfterTheProgramWasKilled) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const FileDescriptor reader(ends[0]);
  FileDescriptor writer(ends[1]);
  const pid_t program = fork();
  if (program == 0) {
    alarm(60);
    House house;
    Log log;
    const auto process =
        house.processes.start({.argv = {"/bin/sh", "-c", "sleep 1000 & echo $$ $!; wait"}}, log);
    log.on_output = [&] {
      if (write(writer.get(), log.out.data(), log.out.size()) < 0) _exit(1);
    };
    house.wait(log);
    _exit(0);
  }
  writer.close();
  char text[64] = {};
  ASSERT_GT(read(reader.get(), text, sizeof text - 1), 0);
  int pids[2] = {};
  ASSERT_EQ(std::sscanf(text, "%d %d", &pids[0], &pids[1]), 2);
  FileDescriptor handles[2];
  for (int i = 0; i < 2; ++i) {
    handles[i] = FileDescriptor(static_cast<int>(syscall(SYS_pidfd_open, pids[i], 0)));
    ASSERT_TRUE(handles[i].is_open());
  }
  kill(program, SIGKILL);
  ASSERT_EQ(waitpid(program, nullptr, 0), program);
  for (const FileDescriptor& handle : handles) {
    pollfd ended{.fd = handle.get(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(poll(&ended, 1, 30'000), 1);
  }
}

TEST(SystemProcesses, WithoutInputStdinIsEmpty) {
  House house;
  Log log;
  house.run({.argv = {"/bin/cat"}}, log);
  EXPECT_EQ(log.out, "");
  EXPECT_EQ(log.exit.status, 0);
}

TEST(SystemProcesses, InputReachesStdinAndEnds) {
  House house;
  Log log;
  const auto process = house.processes.start({.argv = {"/bin/cat"}, .takes_input = true}, log);
  process->write_input("one\n");
  process->write_input("two\n");
  process->close_input();
  house.wait(log);
  EXPECT_EQ(log.out, "one\ntwo\n");
}

TEST(SystemProcesses, InputStaysOpenUntilItIsClosed) {
  House house;
  Log log;
  const auto process = house.processes.start({.argv = {"/bin/cat"}, .takes_input = true}, log);
  process->write_input("one");
  while (log.out != "one") house.loop.run_one();
  process->write_input("two");
  while (log.out != "onetwo") house.loop.run_one();
  EXPECT_FALSE(log.has_exited);
  process->close_input();
  house.wait(log);
  EXPECT_EQ(log.exit.status, 0);
}

TEST(SystemProcesses, AHundredMegabytesGoThroughWhileTheLoopGoesOn) {
  House house;
  Log log;
  log.keeps_nothing = true;
  std::size_t steps = 0;
  log.on_output = [&] { ++steps; };
  const std::string text(100'000'000, 'x');
  const auto process = house.processes.start({.argv = {"/bin/cat"}, .takes_input = true}, log);
  process->write_input(text);
  process->write_input("\n");
  process->close_input();
  EXPECT_EQ(steps, 0u) << "nothing is waited for";
  house.wait(log);
  EXPECT_EQ(log.bytes, text.size() + 1);
  EXPECT_GT(steps, 100u) << "input and output take turns";
}

TEST(SystemProcesses, AProcessThatDoesNotReadItsInputIsNoError) {
  for (const std::string script : {"exit 4", "exec 0<&-; echo closed; exit 4"}) {
    House house;
    Log log;
    const auto process =
        house.processes.start({.argv = {"/bin/sh", "-c", script}, .takes_input = true}, log);
    process->write_input(std::string(1'000'000, 'x'));
    house.wait(log);
    EXPECT_EQ(log.exit.status, 4) << script;
    process->write_input("more");
    process->close_input();
  }
}

TEST(SystemProcesses, OneThatCannotStartDropsItsInput) {
  House house;
  Log log;
  const auto process =
      house.processes.start({.argv = {"no-such-program-here"}, .takes_input = true}, log);
  process->write_input("text");
  process->close_input();
  house.wait(log);
  EXPECT_EQ(log.exit.status, 127);
}

TEST(SystemProcesses, AProcessIsDestroyedWithInputThatWaits) {
  House house;
  Log log;
  {
    const auto process =
        house.processes.start({.argv = {"/bin/sleep", "1000"}, .takes_input = true}, log);
    process->write_input(std::string(1'000'000, 'x'));
    process->close_input();
  }
  EXPECT_FALSE(house.loop.run_one()) << "nothing is watched any more";
}

}  // namespace
}  // namespace keyway
