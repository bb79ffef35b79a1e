#include "cli/dead_spec.h"

#include "cli/common_options.h"
#include "cli/replay_words.h"
#include "cli/run_spec.h"

namespace keyway::cli {
namespace {

std::vector<OptionSpec> options() {
  const std::string section = "Letters";
  std::vector<OptionSpec> all = {
      {.name = "all", .help = "discard, replay: every letter", .section = section},
      {.name = "key",
       .value = "KEY",
       .kind = ValueKind::kText,
       .help = "only letters of this key",
       .example = "u7",
       .section = section},
      {.name = "cause",
       .value = "TEXT",
       .kind = ValueKind::kText,
       .help = "only letters in whose cause this text is found",
       .example = "exit 1",
       .section = section},
  };
  for (OptionSpec option : run_spec().options) {
    if (!is_of_replay(option.name)) continue;
    option.section = "Replay";
    // What more there is to say is in the manual of run.
    option.help = option.help.substr(0, option.help.find("; see "));
    option.details.clear();
    option.fallback.clear();
    option.fallback_text = option.value.empty() || option.name == "report" ? "" : "as the run";
    option.configurable = false;
    all.push_back(std::move(option));
  }
  for (OptionSpec option : display_options()) {
    if (option.name == "json") {
      option.help = "list, show: print each letter as it is in the file; else the summary";
    }
    option.configurable = false;
    all.push_back(std::move(option));
  }
  return all;
}

Topic replay_topic() {
  return {.title = "Replay", .text = R"(
The letters are handled like the records of a run: by the same handler, with the same limits, those
of one key in order. What the run was called with is in command.json of its folder; flags given here
come before it, and a handler given here replaces it.

A letter goes when it was handled. One that dies again stays, with its tries added up. If keyway is
killed meanwhile, all of them stay, and those that were handled are handled again by the next
replay.)"};
}

}  // namespace

CommandSpec dead_spec() {
  return {
      .name = "dead",
      .purpose = "list, show, replay or discard the records that a run gave up",
      .description = R"(
`list` prints a line for each dead letter, `show` everything about those with the given ids,
`replay` handles them once more, and `discard` removes them. Without ids, `list` and `replay` are
about all letters; `discard` then needs --all, --key or --cause.)",
      .examples = {{"keyway dead list orders.jsonl.keyway", "what a run gave up, and why"},
                   {"keyway dead show orders.jsonl.keyway f:1042", "one of them, with its record"},
                   {"keyway dead replay orders.jsonl.keyway", "once more, as the run did"},
                   {"keyway dead replay orders.jsonl.keyway --key u7 -- ./repair {}",
                    "those of one key, by another handler"},
                   {"keyway dead discard orders.jsonl.keyway --cause 'exit 65'",
                    "remove those that can never succeed"}},
      .arguments = {{.name = "ACTION",
                     .kind = ValueKind::kChoice,
                     .help = "list, show, replay or discard",
                     .choices = {"list", "show", "replay", "discard"}},
                    {.name = "DIR",
                     .kind = ValueKind::kFolder,
                     .help = "the state folder of a run, or the file of --dead"},
                    {.name = "ID",
                     .help = "which letters; without one, all that the options below allow",
                     .required = false,
                     .repeats = true},
                    {.name = "COMMAND",
                     .kind = ValueKind::kCommand,
                     .help = "a handler to replay with, instead of the run's",
                     .required = false}},
      .options = options(),
      .topics = {replay_topic()},
      .files = {{"DIR/dead.jsonl", "The letters, one JSON object per line."},
                {"DIR/command.json", "What the run was called with."}},
      .exits = {ExitCode::kOk, ExitCode::kSomeFailed, ExitCode::kUsage, ExitCode::kResumable,
                ExitCode::kHalted, ExitCode::kState, ExitCode::kInterrupted, ExitCode::kTerminated},
      .see_also = {"keyway-run(1)"}};
}

}  // namespace keyway::cli
