#include "exec/foreground.h"

#include <csignal>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "support/own_process.h"
#include "support/temporary_folder.h"

namespace keyway::exec {
namespace {

using std::chrono::milliseconds;

CommandEnd run(const std::vector<std::string>& argv, ForegroundCommand command = {}) {
  command.argv = argv;
  const char* const environment[] = {"PATH=/usr/bin:/bin"};
  command.environment = environment;
  return run_in_foreground(command);
}

CommandEnd shell(const std::string& line, ForegroundCommand command = {}) {
  return run({"/bin/sh", "-c", line}, std::move(command));
}

// Each in a process of its own, which has the signals for itself.
TEST(Foreground, EndsWithTheStatusOfTheCommandOrOfItsSignal) {
  expect_ends([] {
    EXPECT_EQ(run({"true"}).status, 0);
    EXPECT_EQ(shell("exit 7").status, 7);
    EXPECT_EQ(shell("kill -9 $$").status, 128 + SIGKILL);
  });
}

TEST(Foreground, SaysWhyACommandWasNotRun) {
  expect_ends([] {
    const CommandEnd missing = run({"no-such-program-anywhere"});
    EXPECT_EQ(missing.status, 127);
    EXPECT_EQ(missing.failure, "cannot run \"no-such-program-anywhere\": not found in PATH");
    const CommandEnd text = run({"/etc/passwd"});
    EXPECT_EQ(text.status, 126);
    EXPECT_EQ(text.failure, "cannot run \"/etc/passwd\": Permission denied");
  });
}

TEST(Foreground, IsInTheCallersProcessGroupAndHasTheDescriptor) {
  expect_ends([] {
    const FileDescriptor kept(open("/dev/null", O_RDWR | O_CLOEXEC));
    const std::string group = std::to_string(getpgrp());
    EXPECT_EQ(shell("test $(ps -o pgid= -p $$) = " + group).status, 0);
    const std::string here = "test -e /proc/self/fd/" + std::to_string(kept.get());
    EXPECT_EQ(shell(here).status, 1);
    EXPECT_EQ(shell(here, {.inherited = kept.get()}).status, 0);
  });
}

TEST(Foreground, SignalsThatWereIgnoredStayIgnoredAndNoneIsBlocked) {
  expect_ends([] {
    std::signal(SIGHUP, SIG_IGN);
    std::signal(SIGPIPE, SIG_IGN);
    EXPECT_EQ(shell("kill -HUP $$; kill -PIPE $$; exit 3").status, 3);
    EXPECT_EQ(shell("kill -TERM $$; exit 3").status, 128 + SIGTERM);
    std::signal(SIGPIPE, SIG_DFL);
    EXPECT_EQ(shell("kill -PIPE $$; exit 3").status, 128 + SIGPIPE);
  });
}

TEST(Foreground, SignalsFromAProcessArePassedOn) {
  expect_ends([] {
    for (const int number : {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) {
      const CommandEnd end = shell("kill -" + std::to_string(number) + " $PPID; exec sleep 60");
      EXPECT_EQ(end.status, 128 + number);
      EXPECT_FALSE(end.timed_out);
    }
  });
}

TEST(Foreground, WritesItsIdBeforeItRuns) {
  expect_ends([] {
    void* const shared =
        mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(shared, MAP_FAILED);
    int* const pid = static_cast<int*>(shared);
    const TemporaryFolder folder;
    EXPECT_EQ(shell("echo $$ > " + folder.file("pid"), {.pid_record = pid}).status, 0);
    EXPECT_EQ(folder.read("pid"), std::to_string(*pid) + "\n");
  });
}

TEST(Foreground, IsEndedAfterItsTimeByForceIfNeedBe) {
  expect_ends([] {
    const CommandEnd polite = run({"sleep", "60"}, {.timeout = milliseconds(10)});
    EXPECT_TRUE(polite.timed_out);
    EXPECT_EQ(polite.status, 128 + SIGTERM);
    // Whoever ignores SIGTERM from the start cannot be caught before it does.
    std::signal(SIGTERM, SIG_IGN);
    const CommandEnd deaf =
        run({"sleep", "60"}, {.timeout = milliseconds(10), .kill_after = milliseconds(10)});
    EXPECT_TRUE(deaf.timed_out);
    EXPECT_EQ(deaf.status, 128 + SIGKILL);
    const CommandEnd quick = run({"true"}, {.timeout = std::chrono::minutes(1)});
    EXPECT_FALSE(quick.timed_out);
    EXPECT_EQ(quick.status, 0);
  });
}

}  // namespace
}  // namespace keyway::exec
