#include "process/captured_output.h"

#include <csignal>
#include <cstdlib>

#include <sys/resource.h>

#include <gtest/gtest.h>

#include "support/own_process.h"

namespace keyway {
namespace {

std::string all_of(const CapturedOutput& output, std::size_t step = 7) {
  std::string text;
  std::string buffer(step, '\0');
  while (text.size() < output.size()) {
    const std::string_view part = output.read(text.size(), buffer);
    if (part.empty()) break;
    text += part;
  }
  return text;
}

TEST(CapturedOutput, GivesBackWhatItGotPieceByPiece) {
  CapturedOutput output(10);
  std::string expected;
  for (int i = 0; i < 20; ++i) {
    const std::string line = "line " + std::to_string(i) + "\n";
    output.append(line);
    expected += line;
  }
  output.finish();
  EXPECT_EQ(output.size(), expected.size());
  EXPECT_EQ(all_of(output, 7), expected);
  EXPECT_EQ(all_of(output, 1), expected);
  EXPECT_EQ(all_of(output, 1000), expected);
  EXPECT_EQ(output.missing_bytes(), 0u);
}

TEST(CapturedOutput, IsEmptyAtFirst) {
  CapturedOutput output;
  output.finish();
  EXPECT_TRUE(output.empty());
  EXPECT_EQ(all_of(output), "");
}

TEST(CapturedOutput, SaysWhatIsMissingWhenThereIsNoRoomForAFile) {
  expect_ends([] {
    setenv("TMPDIR", "/nowhere-at-all", 1);
    CapturedOutput output(4);
    output.append("abcdef");
    output.append("ghi");
    output.finish();
    const std::string text = all_of(output);
    EXPECT_EQ(text.substr(0, 4), "abcd");
    EXPECT_NE(text.find("5 bytes of output are missing here: no room in /nowhere-at-all"),
              std::string::npos)
        << text;
  });
}

TEST(CapturedOutput, SaysWhatIsMissingWhenTheFileCannotGrow) {
  expect_ends([] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{16, 16};
    setrlimit(RLIMIT_FSIZE, &limit);
    CapturedOutput output(4);
    output.append("0123456789");            // 6 of them to the file
    output.append("abcdefghijklmnopqrst");  // room for 10
    output.append("never");
    output.finish();
    const std::string text = all_of(output, 3);
    EXPECT_EQ(text.substr(0, 20), "0123456789abcdefghij");
    EXPECT_NE(text.find("\nkeyway: 15 bytes of output are missing here"), std::string::npos)
        << text;
    EXPECT_EQ(output.missing_bytes(), 15u);
  });
}

}  // namespace
}  // namespace keyway
