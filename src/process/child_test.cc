#include "process/child.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "support/temporary_folder.h"

namespace keyway {
namespace {

struct Ran {
  std::string out;
  int status = -1;
  int signal = 0;
};

struct Setting {
  std::vector<std::string> argv;
  std::vector<std::string> environment{"PATH=/usr/bin:/bin"};
  std::string directory;
};

Spawned spawn(const Setting& setting, int output) {
  std::vector<const char*> environment;
  for (const std::string& entry : setting.environment) environment.push_back(entry.c_str());
  return spawn_child({.argv = setting.argv,
                      .environment = environment,
                      .directory = setting.directory.empty() ? nullptr : setting.directory.c_str(),
                      .output = output});
}

// Runs it to its end; SIGALRM ends a test that hangs.
Ran run(const Setting& setting) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
  const FileDescriptor reader(ends[0]);
  FileDescriptor writer(ends[1]);
  const Spawned spawned = spawn(setting, writer.get());
  writer.close();
  Ran ran;
  EXPECT_TRUE(spawned.ok()) << spawned.failure.message;
  if (!spawned.ok()) return ran;
  char buffer[4096];
  ssize_t got = 0;
  while ((got = read(reader.get(), buffer, sizeof buffer)) > 0) {
    ran.out.append(buffer, static_cast<std::size_t>(got));
  }
  int state = 0;
  EXPECT_EQ(waitpid(spawned.child.pid, &state, 0), spawned.child.pid);
  if (WIFEXITED(state)) ran.status = WEXITSTATUS(state);
  if (WIFSIGNALED(state)) ran.signal = WTERMSIG(state);
  return ran;
}

TEST(Child, GetsItsArgumentsAsTheyAre) {
  const Ran ran = run({.argv = {"printf", "[%s]", "a b", "$HOME", "*", "", "\"'"}});
  EXPECT_EQ(ran.out, "[a b][$HOME][*][][\"']");
  EXPECT_EQ(ran.status, 0);
}

TEST(Child, HasTheEnvironmentAndTheDirectoryItWasGiven) {
  const TemporaryFolder folder;
  const Ran ran = run({.argv = {"/bin/sh", "-c", "echo $FRUIT; pwd; env | wc -l"},
                       .environment = {"FRUIT=pear", "PATH=/usr/bin:/bin"},
                       .directory = folder.path()});
  // sh itself sets PWD.
  EXPECT_EQ(ran.out, "pear\n" + std::filesystem::canonical(folder.path()).string() + "\n3\n");
}

// The line of /proc/self/status that says which signals this process ignores, but for SIGPIPE.
std::string ignored_signals() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("SigIgn:\t")) continue;
    const unsigned long long mask = std::stoull(line.substr(8), nullptr, 16);
    char text[32];
    std::snprintf(text, sizeof text, "%016llx", mask & ~(1ULL << (SIGPIPE - 1)));
    return text;
  }
  return "no SigIgn";
}

// What was ignored before keyway began, as by nohup, stays so.
TEST(Child, LeadsAGroupOfItsOwnAndHasNoSignalBlockedOrIgnoredThatWasNotBefore) {
  sigset_t blocked;
  sigset_t before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  sigaddset(&blocked, SIGINT);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  const auto old = std::signal(SIGPIPE, SIG_IGN);
  const Ran ran = run({.argv = {"/bin/sh", "-c",
                                "grep -E 'SigBlk|SigIgn' /proc/self/status | cut -f2;"
                                "test $(ps -o pgid= -p $$) = $$ && echo leader"}});
  std::signal(SIGPIPE, old);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(ran.out, "0000000000000000\n" + ignored_signals() + "\nleader\n");
}

TEST(Child, InheritsNoDescriptorThatClosesOnExec) {
  const FileDescriptor secret(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const FileDescriptor shared(open("/dev/null", O_RDONLY));
  const auto is_open = [](const FileDescriptor& descriptor) {
    return run({.argv = {"test", "-e", "/proc/self/fd/" + std::to_string(descriptor.get())}})
               .status == 0;
  };
  EXPECT_FALSE(is_open(secret));
  EXPECT_TRUE(is_open(shared));
}

TEST(Child, ThatIsNotFoundIs127) {
  const Spawned by_name = spawn({.argv = {"no-such-program-here"}}, -1);
  EXPECT_FALSE(by_name.ok());
  EXPECT_EQ(by_name.failure.status, 127);
  EXPECT_EQ(by_name.failure.message, "cannot run \"no-such-program-here\": not found in PATH");
  const Spawned by_path = spawn({.argv = {"/no/such/program"}}, -1);
  EXPECT_EQ(by_path.failure.status, 127);
}

TEST(Child, ThatCannotBeRunIs126) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() + "/text") << "hello";
  const Spawned no_right = spawn({.argv = {folder.path() + "/text"}}, -1);
  EXPECT_EQ(no_right.failure.status, 126);
  EXPECT_NE(no_right.failure.message.find("Permission denied"), std::string::npos);
  const Spawned is_folder = spawn({.argv = {folder.path()}}, -1);
  EXPECT_EQ(is_folder.failure.status, 126);
  const Spawned no_folder = spawn({.argv = {"true"}, .directory = "/no/such/folder"}, -1);
  EXPECT_EQ(no_folder.failure.status, 126);
  EXPECT_EQ(no_folder.failure.message,
            "cannot enter the directory \"/no/such/folder\": No such file or directory");
}

TEST(Child, IsLookedUpInThePathItIsGiven) {
  const TemporaryFolder folder;
  const std::string program = folder.path() + "/greet";
  std::ofstream(program) << "#!/bin/sh\necho hello $1\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  const Ran ran = run({.argv = {"greet", "you"},
                       .environment = {"PATH=/nowhere:" + folder.path() + ":/usr/bin:/bin"}});
  EXPECT_EQ(ran.out, "hello you\n");
}

TEST(Child, AScriptWithoutAFirstLineRunsInTheShell) {
  const TemporaryFolder folder;
  const std::string program = folder.path() + "/script";
  std::ofstream(program) << "echo \"$0|$1|$#\"\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  EXPECT_EQ(run({.argv = {program, "a b"}}).out, program + "|a b|1\n");
}

TEST(Child, EndsWithTheThreadThatStartedIt) {
  Spawned spawned;
  std::thread parent([&] { spawned = spawn({.argv = {"sleep", "1000"}}, -1); });
  parent.join();
  ASSERT_TRUE(spawned.ok());
  pollfd ended{.fd = spawned.child.pidfd.get(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&ended, 1, 30'000), 1);
  int state = 0;
  EXPECT_EQ(waitpid(spawned.child.pid, &state, 0), spawned.child.pid);
  EXPECT_TRUE(WIFSIGNALED(state) && WTERMSIG(state) == SIGKILL);
}

}  // namespace
}  // namespace keyway
