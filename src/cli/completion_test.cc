#include "cli/completion.h"

#include <array>
#include <cstdio>

#include <gtest/gtest.h>

#include "support/temporary_folder.h"

namespace keyway::cli {
namespace {

// What a command line prints, and its exit status below it.
std::string output_of(const std::string& command) {
  std::string text;
  FILE* const pipe = ::popen((command + " 2>&1").c_str(), "r");
  std::array<char, 4096> buffer{};
  for (std::size_t got; (got = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    text.append(buffer.data(), got);
  }
  const int status = ::pclose(pipe);
  return text + "status " + std::to_string(WEXITSTATUS(status)) + "\n";
}

bool is_installed(const std::string& shell) {
  return output_of("command -v " + shell).ends_with("status 0\n");
}

// What bash offers after these words, the last of which is being typed.
class BashCompletion : public ::testing::Test {
 protected:
  std::string complete(const std::string& words) {
    folder.write("keyway.bash", bash_completion(keyway_program()));
    folder.write("ask.bash",
                 "cd \"$1\"; source ./keyway.bash\n"
                 "shift; COMP_WORDS=(\"$@\"); COMP_CWORD=$(( $# - 1 )); _keyway\n"
                 "echo \"${COMPREPLY[@]}\"\n");
    const std::string said =
        output_of("bash " + folder.file("ask.bash") + " " + folder.path() + " keyway " + words);
    return said.substr(0, said.find('\n'));
  }

  const TemporaryFolder folder;
};

TEST_F(BashCompletion, OffersCommandsFirst) {
  EXPECT_EQ(complete("''"), "run batch exec dead config completion man help --help --version");
  EXPECT_EQ(complete("ba"), "batch");
}

TEST_F(BashCompletion, OffersTheFlagsOfTheCommand) {
  EXPECT_EQ(complete("batch --re"), "--retries --report");
  EXPECT_EQ(complete("config --"), "--json --help");
}

TEST_F(BashCompletion, OffersTheValuesOfAFlagInBothForms) {
  EXPECT_EQ(complete("batch --progress ''"), "auto bar plain json none");
  EXPECT_EQ(complete("batch jobs.jsonl --output l"), "line");
  EXPECT_EQ(complete("batch --progress = j"), "json");
  EXPECT_EQ(complete("batch --progress ="), "auto bar plain json none");
  EXPECT_EQ(complete("batch --jobs ''"), "");
}

TEST_F(BashCompletion, OffersFilesAndFoldersWhereTheyAreMeant) {
  folder.write("my jobs.jsonl", "");
  std::filesystem::create_directory(folder.file("a folder"));
  EXPECT_EQ(complete("batch my"), "my jobs.jsonl");
  EXPECT_EQ(complete("batch --state a"), "a folder");
  EXPECT_EQ(complete("batch --state my"), "");
}

TEST_F(BashCompletion, OffersCommandsAsArguments) {
  EXPECT_EQ(complete("help b"), "batch");
  EXPECT_EQ(complete("completion ''"), "bash zsh fish");
}

TEST_F(BashCompletion, OffersProgramsWhereACommandIsToBeRun) {
  // Once for each folder of PATH that has it; bash shows it once.
  EXPECT_TRUE(complete("exec --key k -- mkfif").starts_with("mkfifo"));
}

class CompletionOf : public ::testing::TestWithParam<const char*> {};

TEST_P(CompletionOf, IsValidInItsShell) {
  const std::string shell = GetParam();
  if (!is_installed(shell)) GTEST_SKIP() << "SKIPPED: " << shell << " is not installed";
  const TemporaryFolder folder;
  const Program program = keyway_program();
  folder.write("bash", bash_completion(program));
  folder.write("zsh", zsh_completion(program));
  folder.write("fish", fish_completion(program));
  EXPECT_EQ(output_of(shell + " -n " + folder.file(shell)), "status 0\n");
}
INSTANTIATE_TEST_SUITE_P(Shells, CompletionOf, ::testing::Values("bash", "zsh", "fish"),
                         [](const auto& test) { return std::string(test.param); });

TEST(Completion, FishOffersFlagsAndValues) {
  if (!is_installed("fish")) GTEST_SKIP() << "SKIPPED: fish is not installed";
  const TemporaryFolder folder;
  folder.write("keyway.fish", fish_completion(keyway_program()));
  const auto complete = [&](const std::string& line) {
    return output_of("HOME=" + folder.path() + " fish --no-config -c 'source " +
                     folder.file("keyway.fish") + "; complete -C \"keyway " + line + "\"'");
  };
  EXPECT_TRUE(complete("ba").starts_with("batch\t"));
  EXPECT_TRUE(complete("batch --prog").starts_with("--progress\t"));
  EXPECT_TRUE(complete("batch --progress js").starts_with("json\t"));
  EXPECT_EQ(complete("help ba"), "batch\nstatus 0\n");
}

}  // namespace
}  // namespace keyway::cli
