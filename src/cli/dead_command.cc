// `keyway dead`: from its words to the letters of a run.
#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/config_file.h"
#include "cli/dead_spec.h"
#include "cli/dead_target.h"
#include "cli/dead_text.h"
#include "cli/human_text.h"
#include "cli/json_text.h"
#include "cli/program.h"
#include "cli/replay_words.h"
#include "cli/run_flags.h"
#include "cli/run_session.h"
#include "dead/discard.h"
#include "dead/letter_file.h"
#include "dead/replay.h"

namespace keyway::cli {
namespace {

using dead::LetterFile;
using dead::Selection;

constexpr std::size_t kMostWarnings = 5;

ExitCode fail(const Invocation& call, const Error& error) {
  print_error(call.console, error, call.color);
  return cli::exit_code(error.code);
}

Selection selection_of(const Invocation& call) {
  Selection selection;
  selection.ids.insert(call.arguments.begin() + 2, call.arguments.end());
  if (call.settings.find("key") != nullptr) selection.key = call.settings.text("key");
  selection.cause = call.settings.text("cause");
  return selection;
}

// Opens them, and says which lines are none.
Result<LetterFile> open_letters(const Invocation& call, const std::string& path) {
  Result<LetterFile> letters = LetterFile::open(path);
  if (!letters || call.settings.is_on("quiet")) return letters;
  const std::vector<std::uint64_t>& damaged = letters->damaged();
  for (std::size_t at = 0; at < std::min(damaged.size(), kMostWarnings); ++at) {
    print_warning(call.console, fmt::format("{}:{}: this is no dead letter", path, damaged[at]),
                  call.color);
  }
  if (damaged.size() > kMostWarnings) {
    print_warning(
        call.console,
        fmt::format("{}: nor are {} more", path, counted(damaged.size() - kMostWarnings, "line")),
        call.color);
  }
  if (letters->is_torn()) {
    print_warning(call.console, path + ": the last line is torn: a crash left it", call.color);
  }
  return letters;
}

// Calls `show` for the letters that are meant. True if there were any.
Result<bool> for_selected(const Invocation& call, const std::string& path,
                          const std::function<void(const StoredLetter&, std::string_view)>& show) {
  Result<LetterFile> letters = open_letters(call, path);
  if (!letters) return letters.error();
  const Selection selection = selection_of(call);
  const Result<std::vector<std::size_t>> found = find(*letters, selection);
  if (!found) return found.error();
  const Result<void> read =
      letters->for_each([&](std::size_t which, const StoredLetter& letter, std::string_view line) {
        if (std::ranges::binary_search(*found, which)) show(letter, line);
        return true;
      });
  if (!read) return read.error();
  if (found->empty() && !call.settings.is_on("quiet")) {
    print_note(call.console,
               path + (letters->size() == 0 ? ": no dead letters" : ": no such dead letter"));
  }
  return !found->empty();
}

ExitCode list(const Invocation& call, const DeadTarget& target) {
  const Console& console = call.console;
  const bool json = call.settings.is_on("json");
  const Style style{wants_color(console, call.color, console.out_is_terminal)};
  DeadTable table(style, console.out_is_terminal ? console.columns().value_or(0) : 0);
  const Result<bool> any =
      for_selected(call, target.file, [&](const StoredLetter& letter, std::string_view line) {
        const std::string text = json ? std::string(line) + "\n" : table.add(letter);
        if (!text.empty()) console.out(text);
      });
  if (!any) return fail(call, any.error());
  if (const std::string rest = table.finish(); !rest.empty()) console.out(rest);
  return ExitCode::kOk;
}

ExitCode show(const Invocation& call, const DeadTarget& target) {
  if (call.arguments.size() < 3) {
    return fail(call, usage_error("dead: which letter is to be shown?",
                                  "keyway dead list " + call.arguments[1]));
  }
  const Console& console = call.console;
  const bool json = call.settings.is_on("json");
  const Style style{wants_color(console, call.color, console.out_is_terminal)};
  bool is_first = true;
  const Result<bool> any =
      for_selected(call, target.file, [&](const StoredLetter& letter, std::string_view line) {
        if (json) return console.out(std::string(line) + "\n");
        if (!std::exchange(is_first, false)) console.out("\n");
        console.out(dead_letter_text(letter, style, console.out_is_terminal));
      });
  return any ? ExitCode::kOk : fail(call, any.error());
}

ExitCode discard(const Invocation& call, const DeadTarget& target) {
  const Selection selection = selection_of(call);
  const bool all = call.settings.is_on("all");
  const bool some = !selection.ids.empty() || selection.key || !selection.cause.empty();
  if (all == some) {
    return fail(call, usage_error(all ? "dead: --all and some: which are to be discarded?"
                                      : "dead: which letters are to be discarded?",
                                  fmt::format("keyway dead discard {} --all", call.arguments[1])));
  }
  const Result<dead::Discarded> done = dead::discard(target.folder, target.file, selection);
  if (!done) return fail(call, done.error());
  if (call.settings.is_on("json")) {
    JsonObject object;
    object.add("discarded", done->letters).add("left", done->left);
    call.console.out(object.text() + "\n");
  } else if (!call.settings.is_on("quiet")) {
    print_note(call.console,
               fmt::format("discarded {}, {} left", counted(done->letters, "dead letter"),
                           grouped(done->left)));
  }
  return ExitCode::kOk;
}

// The letters go through `keyway run` as it was called, as far as it is known.
ExitCode replay(const Invocation& call, const DeadTarget& target) {
  namespace fs = std::filesystem;
  const bool has_handler =
      !call.command.empty() || call.settings.source("http") == Source::kFlag || target.command;
  if (!has_handler) {
    return fail(
        call, usage_error(
                  fmt::format("dead: {}: how the run was started is not known", call.arguments[1]),
                  fmt::format("keyway dead replay {} -- COMMAND", call.arguments[1])));
  }
  const Result<bool> any = for_selected(call, target.file, [](const auto&, auto) {});
  if (!any) return fail(call, any.error());
  if (!*any) return ExitCode::kOk;

  const std::string folder =
      fs::absolute(target.folder.empty() ? target.file + ".keyway" : target.folder).string();
  dead::Replay what{
      .options = {}, .file = fs::absolute(target.file).string(), .selection = selection_of(call)};
  const std::vector<std::string> words = replay_words(
      target.command ? target.command->argv : std::vector<std::string>(), call, folder);
  if (target.command && call.command.empty()) {
    std::error_code failed;
    fs::current_path(target.command->cwd, failed);
    if (failed) {
      return fail(call, {ErrorCode::kIo, fmt::format("{}, where the run was started: {}",
                                                     target.command->cwd, failed.message())});
    }
  }
  const Command& run = *call.program.find("run");
  const Result<ParsedArguments> parsed = parse_arguments(run.spec, words);
  if (!parsed) return fail(call, parsed.error());
  Result<Settings> settings = load_settings(run.spec, call.program.commands(), call.console);
  if (!settings) return fail(call, settings.error());
  for (const auto& [option, text] : parsed->options) {
    settings->set(option, {text, Source::kFlag, {}});
  }
  const Invocation run_call{call.program,      run.spec,        call.console, *settings,
                            parsed->arguments, parsed->command, call.color};
  Result<RunFlags> flags = run_flags(run_call);
  if (!flags) return fail(call, flags.error());
  what.options = flags->options;
  RunSession session(run_call, flags->common, kStreamWords,
                     {.title = target.file,
                      .command = "keyway dead replay",
                      .item = "letter",
                      .items = "letters",
                      .group = "key",
                      .groups = "keys"});
  run::Watch watch;
  session.attach(watch);
  if (RunRecorder* const recorder = session.recorder()) {
    watch.sample = [recorder](const StreamSample& sample) { recorder->add(sample); };
  }
  Result<jobs::Summary> summary = dead::replay(what, watch);
  if (summary && !summary->dead_file.empty()) summary->dead_file = target.file;
  return session.finish(std::move(summary));
}

ExitCode run(const Invocation& call) {
  const std::string& action = call.arguments[0];
  if (action != "replay") {
    if (!call.command.empty()) {
      return fail(call, usage_error(fmt::format("dead {}: a command is for replay", action),
                                    "keyway dead replay " + call.arguments[1]));
    }
    for (const OptionSpec& option : call.spec.options) {
      if (!is_of_replay(option.name) || call.settings.find(option.name) == nullptr) continue;
      return fail(call, usage_error(fmt::format("dead {}: {} is for replay", action, option.flag()),
                                    "keyway dead replay " + call.arguments[1]));
    }
  }
  const Result<DeadTarget> target = find_dead_target(call.arguments[1]);
  if (!target) return fail(call, target.error());
  if (action == "list") return list(call, *target);
  if (action == "show") return show(call, *target);
  if (action == "discard") return discard(call, *target);
  if (action == "replay") return replay(call, *target);
  return fail(call, usage_error(fmt::format("dead \"{}\": must be list, show, replay or discard",
                                            printable(action)),
                                "keyway dead list " + call.arguments[1]));
}

}  // namespace

Command dead_command() { return {.spec = dead_spec(), .run = run}; }

}  // namespace keyway::cli
