// The whole of a batch with real processes, in a process of its own.
#include "batch/batch.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/file_descriptor.h"
#include "support/batch_exit_code.h"
#include "support/jobs.h"
#include "support/memory.h"
#include "support/temporary_folder.h"

namespace keyway::batch {
namespace {

using namespace std::chrono_literals;

class BatchTest : public ::testing::Test {
 protected:
  BatchTest() {
    options_.jobs_file = folder_.file("jobs.jsonl");
    options_.jobs = 4;
    options_.limits.standard.limit = 4;
    options_.retries = 0;
  }
  ~BatchTest() override {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  void write_jobs(const std::string& text) { folder_.write("jobs.jsonl", text); }

  // `input`, `output`: -1 for none, and for a file. `others`: the other end of one of them.
  void start(int input = -1, int output = -1, int others = -1) {
    pid_ = fork();
    ASSERT_GE(pid_, 0);
    if (pid_ > 0) return;
    if (others >= 0) close(others);
    alarm(120);
    const int out = output >= 0 ? output : open_file("out");
    dup2(out, 1);
    dup2(open_file("err"), 2);
    if (input >= 0) dup2(input, 0);
    const auto say = [](std::string_view text) {
      std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
    };
    Watch watch;
    watch.notice = say;
    const Result<Summary> summary = run_batch(options_, watch);
    const Error* error = !summary.ok()      ? &summary.error()
                         : summary->failure ? &*summary->failure
                                            : nullptr;
    if (error != nullptr) say("keyway: " + error->message);
    _exit(summary.ok() ? exit_code(*summary) : exit_code(summary.error()));
  }
  int wait() {
    int state = 0;
    rusage usage{};
    EXPECT_EQ(wait4(pid_, &state, 0, &usage), pid_);
    most_memory_kb_ = usage.ru_maxrss;
    pid_ = 0;
    return WIFEXITED(state) ? WEXITSTATUS(state) : -WTERMSIG(state);
  }
  int run(int input = -1, int output = -1) {
    start(input, output);
    return wait();
  }

  std::string out() const { return folder_.read("out"); }
  std::string err() const { return folder_.read("err"); }
  std::string log() const { return folder_.read("jobs.jsonl.keyway/joblog.jsonl"); }
  bool log_has(const std::string& text) const {
    return eventually([&] { return log().find(text) != std::string::npos; });
  }

  TemporaryFolder folder_;
  Options options_;
  pid_t pid_ = 0;
  long most_memory_kb_ = 0;

 private:
  int open_file(const std::string& name) const {
    return open(folder_.file(name).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
  }
};

std::string shell_job(const std::string& id, const std::string& line) {
  return R"({"id":")" + id + R"(","sh":")" + line + "\"}\n";
}

TEST_F(BatchTest, RunsCommandsAndCollectsEveryResult) {
  options_.limits.standard.limit = 1;  // one after the other
  write_jobs(R"({"id":"a","cmd":["echo","a b","$HOME"]})"
             "\n" +
             shell_job("b", "echo $KEYWAY_ID in $KEYWAY_GROUP >&2; exit 3") +
             R"({"id":"c","cmd":["no-such-program-here"]})"
             "\n");
  EXPECT_EQ(run(), 1);
  EXPECT_EQ(out(), "a b $HOME\n");
  EXPECT_EQ(err(),
            "b in default\nkeyway: job \"c\": cannot run \"no-such-program-here\": not found in "
            "PATH\n");
  EXPECT_NE(log().find("\"exit\":3,\"signal\":0,\"outcome\":\"failed\""), std::string::npos);
  EXPECT_NE(log().find("\"exit\":127"), std::string::npos);
}

TEST_F(BatchTest, AMistakeIsFoundBeforeAnythingRuns) {
  write_jobs(shell_job("a", "echo ran") + R"({"cmnd":["x"]})" + "\n");
  EXPECT_EQ(run(), 2);
  EXPECT_EQ(out(), "");
  EXPECT_EQ(err(),
            "keyway: " + options_.jobs_file + ":2: unknown field \"cmnd\"\n  try: \"cmd\"\n");
  EXPECT_NE(access(folder_.file("jobs.jsonl.keyway").c_str(), F_OK), 0) << "nothing was made";
}

TEST_F(BatchTest, AFileThatIsNotThereIsAUsageError) {
  EXPECT_EQ(run(), 2);
  EXPECT_NE(err().find("No such file or directory\n  try: - for standard input"),
            std::string::npos);
}

TEST_F(BatchTest, ASecondRunSaysWhatIsDoneAlready) {
  write_jobs(shell_job("a", "echo a") + shell_job("b", "exit 65"));
  EXPECT_EQ(run(), 1);
  EXPECT_EQ(run(), 1);
  EXPECT_EQ(err(), "resuming: 1 of 2 jobs are done already\n");
  EXPECT_EQ(out(), "");
  write_jobs(shell_job("a", "echo another") + shell_job("b", "exit 0"));
  EXPECT_EQ(run(), 5);
  EXPECT_NE(err().find("try: --fresh"), std::string::npos);
  options_.fresh = true;
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(out(), "another\n");
}

TEST_F(BatchTest, ARunningRunHasItsStateForItself) {
  write_jobs(shell_job("a", "true") + shell_job("b", "sleep 1000"));
  start();
  ASSERT_TRUE(log_has("\"id\":\"a\""));
  const pid_t first = std::exchange(pid_, 0);
  EXPECT_EQ(run(), 5);
  EXPECT_NE(err().find("is in use by another run, pid " + std::to_string(first)),
            std::string::npos);
  pid_ = first;
}

TEST_F(BatchTest, AfterKill9ARunGoesOnWhereItWas) {
  // The second job waits for a file that the first run never sees.
  write_jobs(shell_job("a", "echo a") +
             shell_job("b", "test -e " + folder_.file("go") + " || exec sleep 1000; echo b"));
  start();
  ASSERT_TRUE(log_has("\"id\":\"a\""));
  kill(pid_, SIGKILL);
  EXPECT_EQ(wait(), -SIGKILL);
  folder_.write("go", "");
  folder_.write("jobs.jsonl.keyway/joblog.jsonl", log() + "{\"id\":\"b\",\"se");  // torn
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(err(), "resuming: 1 of 2 jobs are done already\n");
  EXPECT_EQ(out(), "b\n");
}

TEST_F(BatchTest, AnInterruptLetsFinishWhatRunsAndASecondEndsIt) {
  options_.jobs = 1;
  write_jobs(shell_job("a", "echo started >&2; exec sleep 1000") + shell_job("b", "echo never"));
  options_.output = OutputMode::kLine;
  start();
  ASSERT_TRUE(eventually([&] { return err() == "started\n"; }));
  kill(pid_, SIGUSR1);
  ASSERT_TRUE(eventually(
      [&] { return err().find("1 running\n  a  group default  pid ") != std::string::npos; }));
  kill(pid_, SIGINT);
  ASSERT_TRUE(eventually([&] { return err().find("nothing new begins") != std::string::npos; }));
  kill(pid_, SIGINT);
  EXPECT_EQ(wait(), 130);
  EXPECT_EQ(out(), "");
  EXPECT_NE(log().find("\"signal\":15,\"outcome\":\"cancelled\",\"final\":false"),
            std::string::npos);
}

TEST_F(BatchTest, AJobThatIgnoresSigtermIsKilledAfterTheGrace) {
  options_.grace = 50ms;
  // On a busy machine the time may be over before the job ignores SIGTERM: then it gets longer.
  bool ignores = false;
  for (options_.timeout = 100ms; !ignores; options_.timeout *= 2) {
    const TemporaryFolder folder;
    write_jobs(shell_job(
        std::to_string(options_.timeout.count()),
        "trap '' TERM; touch " + folder.file("ignores") + "; while :; do sleep 1000; done"));
    EXPECT_EQ(run(), 1);
    ignores = std::filesystem::exists(folder.file("ignores"));
    const std::string signal = ignores ? "9" : "15";
    EXPECT_NE(log().find("\"exit\":null,\"signal\":" + signal + ",\"outcome\":\"timeout\""),
              std::string::npos);
  }
}

TEST_F(BatchTest, AClosedStdoutEndsTheRunQuietly) {
  options_.jobs = 1;
  std::string jobs;
  for (int i = 0; i < 50; ++i)
    jobs += R"({"cmd":["echo","x"]})"
            "\n";
  write_jobs(jobs);
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  close(ends[0]);
  const FileDescriptor closed(ends[1]);
  EXPECT_EQ(run(-1, closed.get()), 3);
  EXPECT_EQ(err(), "");
  EXPECT_EQ(std::ranges::count(log(), '\n'), 1);
}

TEST_F(BatchTest, AHundredMegabytesOfOutputTakeNoMemory) {
  write_jobs(R"({"cmd":["head","-c","100000000","/dev/zero"]})");
  const std::int64_t before_kb = resident_bytes() / 1024;
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(std::filesystem::file_size(folder_.file("out")), 100'000'000u);
  if (!kSanitized) {
    EXPECT_LT(most_memory_kb_ - before_kb, 16 * 1024);
  }
}

TEST_F(BatchTest, KeptOrderWithRealProcesses) {
  options_.output = OutputMode::kKeepOrder;
  const std::string gate = folder_.file("gate");
  ASSERT_EQ(mkfifo(gate.c_str(), 0600), 0);
  // The first ends after the last: it waits for it at the gate.
  write_jobs(shell_job("1", "cat " + gate) + shell_job("2", "echo two") +
             shell_job("3", "echo one > " + gate));
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(out(), "one\ntwo\n");
}

TEST_F(BatchTest, StandardInputIsReadAsItComes) {
  options_.jobs_file = "-";
  options_.output = OutputMode::kLine;
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  FileDescriptor reader(ends[0]);
  FileDescriptor writer(ends[1]);
  start(reader.get(), -1, writer.get());
  reader.close();
  const auto put = [&](const std::string& text) {
    ASSERT_EQ(write(writer.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  };
  put(shell_job("a", "echo a"));
  ASSERT_TRUE(eventually([&] { return out() == "a\n"; })) << "it does not wait for the end";
  put(shell_job("b", "echo b"));
  writer.close();
  EXPECT_EQ(wait(), 0);
  EXPECT_EQ(out(), "a\nb\n");
}

TEST_F(BatchTest, ManyAtOnce) {
  options_.jobs = 300;
  options_.limits.standard.limit = 300;
  std::string jobs;
  for (int i = 0; i < 300; ++i)
    jobs += R"({"cmd":["echo","x"]})"
            "\n";
  write_jobs(jobs);
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(out().size(), 600u);
}

TEST_F(BatchTest, APlanRunsNothing) {
  write_jobs(shell_job("a", "echo ran") + R"({"id":"b","group":"db","cmd":["x","it's","c=d"]})" +
             "\n");
  options_.limits.groups["db"] = {.limit = 2, .max_in_flight = {}, .queue = {}};
  std::vector<PlannedJob> plan;
  ASSERT_TRUE(plan_batch(options_, [&](const PlannedJob& job) { plan.push_back(job); }).ok());
  ASSERT_EQ(plan.size(), 2u);
  EXPECT_EQ(plan[0].command, "echo ran");
  EXPECT_EQ(plan[1].command, R"(x 'it'\''s' c=d)");
  EXPECT_EQ(plan[1].limit, 2);
  EXPECT_FALSE(plan[0].is_done);
  EXPECT_NE(access(folder_.file("jobs.jsonl.keyway").c_str(), F_OK), 0) << "nothing was made";
  run();
  plan.clear();
  ASSERT_TRUE(plan_batch(options_, [&](const PlannedJob& job) { plan.push_back(job); }).ok());
  EXPECT_TRUE(plan[0].is_done);
  EXPECT_FALSE(plan[1].is_done);
}

}  // namespace
}  // namespace keyway::batch
