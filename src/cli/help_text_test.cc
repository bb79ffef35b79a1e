#include "cli/help_text.h"

#include <sstream>

#include <gtest/gtest.h>

#include "cli/completion.h"
#include "cli/human_text.h"
#include "cli/man_page.h"
#include "cli/program.h"

namespace keyway::cli {
namespace {

std::string man_flag(const OptionSpec& option) {
  std::string flag = "\\-\\-";
  for (const char letter : option.name)
    flag += letter == '-' ? std::string("\\-") : std::string(1, letter);
  return flag;
}

TEST(Help, ExamplesComeBeforeUsageAndOptions) {
  const Program program = keyway_program();
  for (const Command& command : program.commands()) {
    const std::string help = help_text(command.spec, 80, Style{});
    ASSERT_FALSE(command.spec.examples.empty()) << command.spec.name;
    const std::size_t example = help.find(command.spec.examples.front().command);
    EXPECT_LT(example, help.find("\nUsage\n")) << command.spec.name;
    EXPECT_LT(help.find("\nUsage\n"), help.find("\n  -h, --help")) << command.spec.name;
  }
}

TEST(Help, EveryOptionIsInHelpManualDocumentationAndCompletionsAlike) {
  const Program program = keyway_program();
  const std::string bash = bash_completion(program);
  const std::string zsh = zsh_completion(program);
  const std::string fish = fish_completion(program);
  for (const Command& command : program.commands()) {
    const CommandSpec& spec = command.spec;
    const std::string help = help_text(spec, 80, Style{});
    const std::string manual = man_page(spec, "1");
    const std::string markdown = markdown_page(spec);
    std::vector<OptionSpec> options = spec.options;
    options.push_back(help_option());
    for (const OptionSpec& option : options) {
      SCOPED_TRACE(spec.name + " " + option.flag());
      EXPECT_FALSE(option.help.empty());
      EXPECT_NE(help.find(option.synopsis()), std::string::npos);
      EXPECT_NE(manual.find(man_flag(option)), std::string::npos);
      EXPECT_NE(markdown.find(option.synopsis()), std::string::npos);
      EXPECT_NE(bash.find(option.flag()), std::string::npos);
      EXPECT_NE(zsh.find(option.flag()), std::string::npos);
      EXPECT_NE(fish.find("from " + spec.name + "' -l " + option.name + " "), std::string::npos);
      for (const std::string& choice : option.choices) {
        EXPECT_NE(bash.find(choice), std::string::npos) << choice;
        EXPECT_NE(zsh.find(choice), std::string::npos) << choice;
        EXPECT_NE(fish.find(choice), std::string::npos) << choice;
      }
      if (option.configurable) {
        EXPECT_NE(markdown.find(option.environment_name()), std::string::npos);
      }
    }
    for (const ExitCode code : spec.exits) {
      EXPECT_NE(markdown.find("`" + std::to_string(static_cast<int>(code)) + "`"),
                std::string::npos);
    }
  }
}

TEST(Help, FitsTheTerminal) {
  const Program program = keyway_program();
  for (const int columns : {60, 80, 120}) {
    for (const Command& command : program.commands()) {
      std::istringstream lines(help_text(command.spec, columns, Style{}));
      for (std::string line; std::getline(lines, line);) {
        // Commands of examples are not broken: they are there to be copied.
        if (line.starts_with("  ") && line.find("keyway ") != std::string::npos) continue;
        EXPECT_LE(display_width(line), columns) << line;
      }
    }
  }
}

TEST(Help, IsPlainUnlessColourIsWanted) {
  const Program program = keyway_program();
  const CommandSpec& spec = program.find("batch")->spec;
  EXPECT_EQ(help_text(spec, 80, Style{}).find('\x1b'), std::string::npos);
  EXPECT_NE(help_text(spec, 80, Style{true}).find("\x1b[1mExamples\x1b[0m"), std::string::npos);
}

TEST(Help, OverviewNamesEveryCommand) {
  const Program program = keyway_program();
  for (const bool brief : {true, false}) {
    const std::string text = overview_text(program, 80, Style{}, brief);
    for (const Command& command : program.commands()) {
      EXPECT_NE(text.find("\n  " + command.spec.name + " "), std::string::npos);
    }
  }
  const std::string manual = overview_man_page(program);
  EXPECT_NE(manual.find(".BR keyway\\-batch (1)"), std::string::npos);
}

TEST(ManPage, NothingInItIsTakenForARequest) {
  const CommandSpec spec{.name = "x",
                         .purpose = "be odd",
                         .description = ".hidden files\n and 'quotes'\n\na \\ backslash"};
  const std::string manual = man_page(spec, "1");
  EXPECT_NE(manual.find("\n\\&.hidden files and \\(aqquotes\\(aq\n"), std::string::npos) << manual;
  EXPECT_NE(manual.find("\na \\e backslash\n"), std::string::npos);
}

}  // namespace
}  // namespace keyway::cli
