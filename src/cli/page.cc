#include "cli/page.h"

#include <fmt/format.h>

#include "cli/help_text.h"
#include "cli/program.h"

namespace keyway::cli {
namespace {

std::string sentence(std::string text) {
  if (text.empty()) return text;
  if (text.front() >= 'a' && text.front() <= 'z') text.front() -= 'a' - 'A';
  if (text.back() != '.') text += '.';
  return text;
}

PageSection section(std::string title) { return {std::move(title), false, {}, {}}; }

void add_option_sections(const CommandSpec& spec, std::vector<PageSection>& page) {
  PageSection options = section("Options");
  if (spec.reads_configuration) {
    options.items.push_back({{},
                             {"Where an option names an environment variable below, it can also be "
                              "set there, and under "
                              "its own name in a configuration file: see Configuration."}});
  }
  page.push_back(std::move(options));
  for (const OptionGroup& group : grouped_options(spec)) {
    PageSection part{group.title, true, {}, {}};
    for (const OptionSpec* const option : group.options) {
      std::string term = option->letter == 0 ? "" : fmt::format("-{}, ", option->letter);
      PageItem item{term + option->synopsis(), {sentence(full_help(*option))}};
      for (std::string& text : paragraphs(option->details))
        item.paragraphs.push_back(std::move(text));
      if (option->configurable) {
        item.paragraphs.back() += fmt::format(" Environment: `{}`.", option->environment_name());
      }
      part.items.push_back(std::move(item));
    }
    page.push_back(std::move(part));
  }
}

void add_topic(const Topic& topic, std::vector<PageSection>& page) {
  PageSection part = section(topic.title);
  for (const std::string& text : paragraphs(topic.text)) part.items.push_back({{}, {text}});
  part.sample = topic.sample;
  page.push_back(std::move(part));
}

void add_entries(const std::string& title, const std::vector<Entry>& entries,
                 std::vector<PageSection>& page) {
  if (entries.empty()) return;
  PageSection part = section(title);
  for (const Entry& entry : entries) part.items.push_back({entry.name, {entry.what}});
  page.push_back(std::move(part));
}

void add_exits(const std::vector<ExitCode>& exits, std::vector<PageSection>& page) {
  if (exits.empty()) return;
  PageSection part = section("Exit status");
  for (const ExitCode code : exits) {
    part.items.push_back(
        {std::to_string(static_cast<int>(code)), {sentence(std::string(meaning(code)))}});
  }
  page.push_back(std::move(part));
}

Topic configuration_topic() {
  return {.title = "Configuration",
          .text = R"(
A value is taken from the first of these that has it: the command line; the environment; the
project's file `keyway.toml`; the user's file `$XDG_CONFIG_HOME/keyway/config.toml` (else
`~/.config/keyway/config.toml`); the built-in default. `keyway config` shows each value and where
it comes from.

The project's file is the nearest `keyway.toml` in the current folder and its parents, up to the
repository's root (the folder that holds `.git`) or the home folder. Where neither is above it,
only the current folder is looked at.

Both files have the same form: keys are the long names of options, and a table with the name of a
command holds what is meant for that command alone. Paths are meant from the file's own folder. A
key that is not known is an error.)",
          .sample = R"(jobs = 8
color = "never"

[batch]
retries = 5
limits = "limits.toml"
)"};
}

}  // namespace

std::vector<PageSection> page_sections(const CommandSpec& spec) {
  std::vector<PageSection> page;
  if (!spec.description.empty() || !spec.arguments.empty()) {
    PageSection part = section("Description");
    for (const std::string& text : paragraphs(spec.description)) part.items.push_back({{}, {text}});
    for (const ArgumentSpec& argument : spec.arguments) {
      part.items.push_back({argument.name, {sentence(argument.help)}});
    }
    page.push_back(std::move(part));
  }
  if (!spec.examples.empty()) {
    PageSection part = section("Examples");
    for (const Example& example : spec.examples) {
      part.items.push_back({example.command, {sentence(example.what)}});
    }
    page.push_back(std::move(part));
  }
  add_option_sections(spec, page);
  for (const Topic& topic : spec.topics) add_topic(topic, page);
  if (spec.reads_configuration) add_topic(configuration_topic(), page);
  add_entries("Environment", spec.environment, page);
  add_entries("Files", spec.files, page);
  add_exits(spec.exits, page);
  return page;
}

std::vector<PageSection> overview_sections(const Program& program) {
  std::vector<PageSection> page;
  PageSection commands = section("Commands");
  for (const Command& command : program.commands()) {
    commands.items.push_back({"keyway " + command.spec.name, {sentence(command.spec.purpose)}});
  }
  page.push_back(std::move(commands));
  PageSection options = section("Options");
  options.items.push_back({"-h, --help", {"Show the commands there are."}});
  options.items.push_back({"--version", {"Show the version."}});
  page.push_back(std::move(options));
  add_topic(configuration_topic(), page);
  std::vector<ExitCode> exits;
  for (const ExitMeaning& row : exit_meanings()) exits.push_back(row.code);
  add_exits(exits, page);
  return page;
}

}  // namespace keyway::cli
