// `keyway exec` from its command line to its exit code.
#include <csignal>

#include "cli/exec_fixture.h"
#include "cli/program.h"
#include "support/fake_console.h"
#include "support/pseudo_terminal.h"

namespace keyway::cli {
namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Of a call that is wrong, and runs nothing.
std::string error_of(std::vector<std::string> words) {
  FakeConsole fake;
  words.insert(words.begin(), "exec");
  EXPECT_EQ(static_cast<int>(keyway_program().run(words, fake.console)), 2);
  EXPECT_EQ(fake.out, "");
  return fake.err;
}

class ExecCommand : public ExecProgram {};

TEST_F(ExecCommand, EndsWithTheStatusOfTheCommand) {
  EXPECT_EQ(run({}, {"true"}), 0);
  EXPECT_EQ(run({}, {"sh", "-c", "exit 42"}), 42);
  EXPECT_EQ(run({}, {"sh", "-c", "kill -SEGV $$"}), 128 + SIGSEGV);
  EXPECT_EQ(output(), "");
}

TEST_F(ExecCommand, GivesItsWordsAndStreamsToTheCommandAsTheyAre) {
  EXPECT_EQ(run({}, {"printf", "[%s]", "-v", "--key", "a b", "--", "$HOME"}), 0);
  EXPECT_EQ(output(), "[-v][--key][a b][--][$HOME]");
}

TEST_F(ExecCommand, NeedsNoDashesBeforeTheCommand) {
  StartedProgram program(
      {KEYWAY_PROGRAM, "exec", "--state", slots, "--key=k", "-v", "echo", "-n", "-v"},
      place.file("output"));
  EXPECT_EQ(program.wait(), 0);
  EXPECT_TRUE(output().starts_with("keyway: key \"k\": slot 1, after ")) << output();
  EXPECT_TRUE(output().ends_with("\n-v")) << output();
}

TEST_F(ExecCommand, TellsTheCommandItsKeyAndSlot) {
  setenv("KEYWAY_SLOT", "77", 1);
  StartedProgram holder = start({"--limit", "2"}, gated_probe(2, "a"));
  ASSERT_TRUE(wait_for_log("begin a"));
  EXPECT_EQ(run({"--limit", "2"},
                {"sh", "-c", "echo $KEYWAY_KEY $KEYWAY_SLOT; env | grep -c KEYWAY_SLOT"}),
            0);
  unsetenv("KEYWAY_SLOT");
  EXPECT_EQ(output(), "k 2\n1\n");
  open_gate("a");
}

TEST_F(ExecCommand, SaysWhyTheCommandCannotBeRunAndFreesTheSlot) {
  EXPECT_EQ(run({}, {"no-such-program"}), 127);
  EXPECT_EQ(run({}, {"/etc/passwd"}), 126);
  EXPECT_EQ(output(),
            "keyway: cannot run \"no-such-program\": not found in PATH\n"
            "keyway: cannot run \"/etc/passwd\": Permission denied\n");
  EXPECT_FALSE(has_key_file());
}

TEST_F(ExecCommand, EndsACommandThatTakesTooLong) {
  EXPECT_EQ(run({"--timeout", "20ms"}, {"sleep", "60"}), 124);
  EXPECT_EQ(output(), "keyway: sleep ran longer than 20ms, and was ended\n");
  EXPECT_EQ(run({"--timeout", "1m"}, {"true"}), 0);
  EXPECT_FALSE(has_key_file());
}

TEST_F(ExecCommand, PassesSignalsOnToTheCommand) {
  for (const int number : {SIGTERM, SIGHUP, SIGINT}) {
    const std::string id = std::to_string(number);
    StartedProgram program = start({}, gated_probe(1, id));
    ASSERT_TRUE(wait_for_log("begin " + id));
    program.send_signal(number);
    EXPECT_EQ(program.wait(), 128 + number);
  }
  EXPECT_EQ(run({"--no-wait"}, probe(1, "next")), 0);
  EXPECT_FALSE(exceeded());
}

TEST_F(ExecCommand, AFolderThatIsNotSafeIsRefused) {
  chmod(slots.c_str(), 0777);
  EXPECT_EQ(run({}, {"true"}), 125);
  EXPECT_EQ(output(), "keyway: " + slots +
                          " can be written by everybody, who could hold up or forge its slots\n"
                          "  try: --state " +
                          slots + "/keyway\n");
}

TEST_F(ExecCommand, KeepsTheSlotsInTheRuntimeFolder) {
  const std::string before = std::getenv("XDG_RUNTIME_DIR") ? std::getenv("XDG_RUNTIME_DIR") : "";
  setenv("XDG_RUNTIME_DIR", place.path().c_str(), 1);
  const std::string look = "ls " + place.file("keyway");
  EXPECT_EQ(StartedProgram({KEYWAY_PROGRAM, "exec", "--key", "a/b", "--", "sh", "-c", look},
                           place.file("output"))
                .wait(),
            0);
  before.empty() ? unsetenv("XDG_RUNTIME_DIR") : setenv("XDG_RUNTIME_DIR", before.c_str(), 1);
  EXPECT_EQ(output(), "a%2Fb.slots\n");
}

TEST_F(ExecCommand, OnATerminalSaysWhoIsInTheWayAndLetsCtrlCThrough) {
  StartedProgram holder = start({}, gated_probe(1, "a"));
  ASSERT_TRUE(wait_for_log("begin a"));
  mkfifo(place.file("gate.b").c_str(), 0600);
  PseudoTerminal terminal({KEYWAY_PROGRAM, "exec", "--key", "k", "--state", slots, "--",
                           KEYWAY_EXEC_PROBE, place.path(), "1", "b", "gate"},
                          200);
  ASSERT_TRUE(terminal.wait_for("keyway: waiting for key \"k\": 1 of 1 held by pid "));
  ASSERT_TRUE(terminal.wait_for("(keyway_exec_probe, ")) << terminal.output();
  open_gate("a");
  ASSERT_TRUE(wait_for_log("begin b"));
  terminal.type("\x03");
  EXPECT_EQ(terminal.wait_for_exit(), 130) << terminal.output();
  EXPECT_FALSE(has(place.read("log"), "end b"));
  EXPECT_FALSE(has_key_file());
}

TEST(ExecUsage, IsCheckedBeforeAnythingRuns) {
  EXPECT_EQ(error_of({"--", "true"}),
            "keyway: exec: --key is missing\n  try: keyway exec --key backup -- ./backup.sh\n");
  EXPECT_EQ(error_of({"--key", "k"}),
            "keyway: exec: COMMAND is missing\n  try: keyway exec --key backup -- ./backup.sh\n");
  EXPECT_EQ(error_of({"--key", "k", "--limit", "0", "true"}),
            "keyway: --limit \"0\": must be a whole number from 1 to 1,000\n  try: --limit 2\n");
  EXPECT_EQ(error_of({"--key", "k", "--wait", "soon", "true"}),
            "keyway: --wait \"soon\": must be a time such as 500ms, 30s, 5m or 1h\n"
            "  try: --wait 5m\n");
  EXPECT_EQ(error_of({"--key", "k", "--wait", "5s", "--no-wait", "true"}),
            "keyway: exec: --wait and --no-wait exclude each other\n  try: one of them\n");
  EXPECT_EQ(error_of({"--key", "k", "--timeot", "5s", "true"}),
            "keyway: unknown flag \"--timeot\"\n  try: --timeout TIME\n");
}

TEST(Launcher, HandsAllOtherCommandsOver) {
  const TemporaryFolder folder;
  StartedProgram version({KEYWAY_PROGRAM, "--version"}, folder.file("output"));
  EXPECT_EQ(version.wait(), 0);
  EXPECT_TRUE(folder.read("output").starts_with("keyway 0.")) << folder.read("output");
}

TEST(Launcher, AloneSaysWhatIsMissing) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.file("bin"));
  std::filesystem::copy_file(KEYWAY_PROGRAM, folder.file("bin/keyway"));
  StartedProgram alone({folder.file("bin/keyway"), "batch"}, folder.file("output"));
  EXPECT_EQ(alone.wait(), 125);
  EXPECT_TRUE(has(folder.read("output"), "/keyway/keyway: No such file or directory\n  try: "))
      << folder.read("output");
}

}  // namespace
}  // namespace keyway::cli
