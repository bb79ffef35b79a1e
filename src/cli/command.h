// A command, described once. Its parser, help, man page, completions and documentation are all made
// from this description, so that they cannot disagree.
//
//   Command hello{
//       .spec = {.name = "hello",
//                .purpose = "greet somebody",
//                .arguments = {{.name = "NAME", .help = "who is greeted"}},
//                .options = {{.name = "times", .value = "N", .kind = ValueKind::kNumber,
//                             .help = "how often", .fallback = "1", .configurable = true}}},
//       .run = [](const Invocation& call) { ...; return ExitCode::kOk; }};
//
// Texts have no markup but `backquotes` around what is typed as it is. A help text is a phrase in
// lower case, without a full stop. In longer ones line breaks mean nothing, and a blank line begins
// a new paragraph.
// An option that is `configurable` can also be set as KEYWAY_<NAME> and in a configuration file.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/console.h"
#include "cli/exit_code.h"
#include "cli/settings.h"

namespace keyway::cli {

// kCommand is for the last argument: a command to run. It is what comes after --; where there is no
// other argument, its first word ends the options, and -- may be left out.
enum class ValueKind { kSwitch, kNumber, kDuration, kChoice, kText, kFile, kFolder, kCommand };

struct OptionSpec {
  char letter = 0;    // 0: none
  std::string name;   // without the dashes
  std::string value;  // how help names its value; empty for a switch
  ValueKind kind = ValueKind::kSwitch;
  std::string help;
  std::string details;               // more, for the man page: whole sentences
  std::string fallback;              // the built-in value, as it would be written; empty: none
  std::string fallback_text;         // how help says it, where that is not `fallback` itself
  std::vector<std::string> choices;  // kChoice: all there are; else some that are worth offering
  std::string example;               // a valid value for error messages
  bool configurable = false;
  std::string section;  // the heading it stands under

  std::string flag() const { return "--" + name; }
  std::string environment_name() const;  // KEYWAY_MAX_JOBS for max-jobs; empty if not configurable
  std::string synopsis() const;          // "--jobs N"
  std::string valid_example() const;     // `example`, else the first choice, else the fallback
};

struct ArgumentSpec {
  std::string name;
  ValueKind kind = ValueKind::kText;
  std::string help;
  bool required = true;
  std::vector<std::string> choices;
  bool repeats = false;  // there may be several
};

struct Example {
  std::string command;
  std::string what;
};

struct Entry {  // of a list of files, or of environment variables
  std::string name;
  std::string what;
};

// A part of the man page that only this command has.
struct Topic {
  std::string title;
  std::string text;
  std::string sample;  // shown as it is, after the text
};

struct CommandSpec {
  std::string name;
  std::string purpose;  // one line
  std::string description;
  std::vector<Example> examples;
  std::vector<ArgumentSpec> arguments;
  std::vector<OptionSpec> options;  // --help and -h come by themselves
  std::vector<Topic> topics;
  std::vector<Entry> environment;  // besides the options'
  std::vector<Entry> files;
  std::vector<ExitCode> exits;
  std::vector<std::string> see_also;  // "parallel(1)"
  bool reads_configuration = false;

  const OptionSpec* find_option(std::string_view option) const;
  bool takes_command() const;
  std::string synopsis() const;  // "keyway batch [OPTION]... JOBS"
};

class Program;

// One call of a command, its settings resolved.
struct Invocation {
  const Program& program;
  const CommandSpec& spec;
  Console& console;
  const Settings& settings;
  const std::vector<std::string>& arguments;  // but for a command to run
  const std::vector<std::string>& command;    // the command to run
  ColorMode color = ColorMode::kAuto;
};

struct Command {
  CommandSpec spec;
  std::function<ExitCode(const Invocation&)> run;
};

// The paragraphs of a longer text, each in one line.
std::vector<std::string> paragraphs(std::string_view text);

// The option every command has.
const OptionSpec& help_option();

}  // namespace keyway::cli
