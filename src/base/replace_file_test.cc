#include "base/replace_file.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "support/temporary_folder.h"

namespace keyway {
namespace {

std::size_t files_in(const std::string& folder) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

TEST(ReplaceFile, WritesANewFileAndReplacesAnOldOne) {
  const TemporaryFolder folder;
  ASSERT_TRUE(replace_file(folder.file("report.html"), "first").ok());
  EXPECT_EQ(folder.read("report.html"), "first");
  const std::string longer(300'000, 'x');
  ASSERT_TRUE(replace_file(folder.file("report.html"), longer).ok());
  EXPECT_EQ(folder.read("report.html"), longer);
  EXPECT_EQ(files_in(folder.path()), 1U) << "nothing else stays behind";
}

TEST(ReplaceFile, OthersMayReadIt) {
  const TemporaryFolder folder;
  ASSERT_TRUE(replace_file(folder.file("report.html"), "x").ok());
  folder.write("usual", "x");
  EXPECT_EQ(std::filesystem::status(folder.file("report.html")).permissions(),
            std::filesystem::status(folder.file("usual")).permissions());
}

TEST(ReplaceFile, AFailureNamesTheFileAndLeavesNothingBehind) {
  const TemporaryFolder folder;
  const Result<void> missing = replace_file(folder.file("no/report.html"), "x");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ErrorCode::kIo);
  EXPECT_NE(missing.error().message.find("no/report.html"), std::string::npos);
  EXPECT_NE(missing.error().message.find("make its folder first"), std::string::npos);
  EXPECT_FALSE(missing.error().retryable);

  // A folder cannot be replaced by a file: it fails at the very end.
  std::filesystem::create_directory(folder.file("taken"));
  EXPECT_FALSE(replace_file(folder.file("taken"), "x").ok());
  EXPECT_EQ(files_in(folder.path()), 1U);
}

}  // namespace
}  // namespace keyway
