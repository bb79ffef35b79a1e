// The program as it is, on a terminal and in a pipe.
#include <algorithm>
#include <fstream>

#include <sys/stat.h>

#include <gtest/gtest.h>

#include "cli/human_text.h"
#include "support/pseudo_terminal.h"
#include "support/temporary_folder.h"

namespace keyway::cli {
namespace {

// The widest line a terminal would have to show; control sequences take no room.
int widest_line(const std::string& output) {
  int widest = 0;
  std::string line;
  for (std::size_t at = 0; at < output.size(); ++at) {
    if (output[at] == '\x1b') {
      while (at + 1 < output.size() &&
             std::isalpha(static_cast<unsigned char>(output[++at])) == 0) {
      }
    } else if (output[at] == '\r' || output[at] == '\n') {
      line.clear();
    } else {
      line += output[at];
      widest = std::max(widest, display_width(line));
    }
  }
  return widest;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class Terminal : public ::testing::Test {
 protected:
  Terminal() {
    ::mkfifo(folder.file("gate").c_str(), 0600);
    // The first ends when the test opens the gate, so that nothing depends on time.
    folder.write("jobs.jsonl", "{\"id\":\"a\",\"sh\":\"read line < " + folder.file("gate") +
                                   "\"}\n{\"id\":\"b\",\"cmd\":[\"false\"]}\n");
  }

  std::vector<std::string> command(const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {KEYWAY_PROGRAM, "batch", folder.file("jobs.jsonl"),
                                      "--retries", "0"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  void open_gate() { std::ofstream(folder.file("gate")) << "go\n"; }

  const TemporaryFolder folder;
};

TEST_F(Terminal, ShowsABarThatNeverWrapsNotEvenAfterAResize) {
  PseudoTerminal terminal(command(), 60);
  ASSERT_TRUE(terminal.wait_for("run 1/")) << terminal.output();
  EXPECT_LT(widest_line(terminal.output()), 60);
  const std::size_t wide = terminal.output().size();
  terminal.resize(24);
  // Two drawings later one of them has seen the new width.
  ASSERT_TRUE(terminal.wait_for("\x1b[J\r", wide));
  const std::size_t one = terminal.output().size();
  ASSERT_TRUE(terminal.wait_for("\x1b[J\r", one));
  const std::size_t narrow = terminal.output().size();
  ASSERT_TRUE(terminal.wait_for("\x1b[J\r", narrow));
  EXPECT_LT(widest_line(terminal.output().substr(narrow)), 24);
  terminal.resize(100);
  open_gate();
  EXPECT_EQ(terminal.wait_for_exit(), 1);
  EXPECT_TRUE(has(terminal.output(), "\r\x1b[Jdone in ")) << terminal.output();
  EXPECT_FALSE(has(terminal.output(), "\x1b[?25l"));  // the cursor is never hidden
}

TEST_F(Terminal, ColoursUnlessNoColorIsSet) {
  {
    PseudoTerminal terminal(command(), 100);
    ASSERT_TRUE(terminal.wait_for("run 1/"));
    open_gate();
    EXPECT_EQ(terminal.wait_for_exit(), 1);
    EXPECT_TRUE(has(terminal.output(), "\x1b[31mfailed 1\x1b[0m")) << terminal.output();
  }
  PseudoTerminal terminal(command({"--fresh"}), 100, {{"NO_COLOR", "1"}});
  ASSERT_TRUE(terminal.wait_for("run 1/"));
  open_gate();
  EXPECT_EQ(terminal.wait_for_exit(), 1);
  EXPECT_TRUE(has(terminal.output(), "failed 1"));
  EXPECT_FALSE(has(terminal.output(), "\x1b[3"));
}

TEST_F(Terminal, ADumbOneGetsNoControlSequences) {
  PseudoTerminal terminal(command(), 100, {{"TERM", "dumb"}});
  open_gate();
  EXPECT_EQ(terminal.wait_for_exit(), 1);
  EXPECT_FALSE(has(terminal.output(), "\x1b")) << terminal.output();
  EXPECT_TRUE(has(terminal.output(), "done in "));
}

TEST_F(Terminal, OutputOfJobsIsNotMixedWithTheBar) {
  folder.write("jobs.jsonl",
               "{\"id\":\"a\",\"sh\":\"read line < " + folder.file("gate") + "; echo said\"}\n");
  PseudoTerminal terminal(command(), 100);
  ASSERT_TRUE(terminal.wait_for("run 1/"));
  open_gate();
  EXPECT_EQ(terminal.wait_for_exit(), 0);
  EXPECT_TRUE(has(terminal.output(), "\r\x1b[Jsaid\r\n")) << terminal.output();
}

TEST_F(Terminal, CtrlCLetsWhatRunsFinishAndSaysHowToGoOn) {
  PseudoTerminal terminal(command({"-j", "1"}), 100);
  ASSERT_TRUE(terminal.wait_for("run 1/"));
  terminal.type("\x03");
  ASSERT_TRUE(terminal.wait_for("stopping"));
  open_gate();
  EXPECT_EQ(terminal.wait_for_exit(), 130);
  EXPECT_TRUE(has(terminal.output(), "after ")) << terminal.output();
  EXPECT_TRUE(has(terminal.output(), "not run 1")) << terminal.output();
  EXPECT_TRUE(has(terminal.output(), "the same command again runs what is left"));
}

}  // namespace
}  // namespace keyway::cli
