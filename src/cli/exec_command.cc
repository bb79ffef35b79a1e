// `keyway exec`: from flags to the engine, and from how it ended to the exit code.
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/exec_text.h"
#include "cli/human_text.h"
#include "exec/exec.h"

namespace keyway::cli {
namespace {

constexpr int kMostSlots = 1000;
constexpr std::chrono::seconds kTerminalNotice(1);

std::vector<OptionSpec> options() {
  return {
      {.name = "key",
       .value = "K",
       .kind = ValueKind::kText,
       .help = "what is limited: any text; commands with the same key share its slots",
       .example = "db",
       .section = "Limit"},
      {.name = "limit",
       .value = "N",
       .kind = ValueKind::kNumber,
       .help = "how many commands with this key run at once",
       .details = "It is this command's own: it starts when fewer than N run. Others may come with "
                  "another limit for the same key.",
       .fallback = "1",
       .example = "2",
       .section = "Limit"},
      {.name = "wait",
       .value = "TIME",
       .kind = ValueKind::kDuration,
       .help = "give up with status 75 if no slot is free within this time",
       .fallback_text = "as long as it takes",
       .choices = {"30s", "5m", "1h"},
       .example = "5m",
       .section = "Waiting"},
      {.name = "no-wait",
       .help = "give up with status 75 if no slot is free now, or others wait",
       .section = "Waiting"},
      {.name = "timeout",
       .value = "TIME",
       .kind = ValueKind::kDuration,
       .help = "end the command after this time, with status 124",
       .details =
           "Counted from its start. It gets SIGTERM and, 5 s later, SIGKILL; what it started "
           "itself gets neither.",
       .fallback_text = "never",
       .choices = {"30s", "5m", "1h"},
       .example = "30s",
       .section = "Command"},
      {.name = "state",
       .value = "DIR",
       .kind = ValueKind::kFolder,
       .help = "keep the slots in this folder",
       .details = "Those who are to share a limit need the same folder. The default is one user's; "
                  "and a cron job may have no XDG_RUNTIME_DIR where a terminal has one. A folder "
                  "that a group may write serves the group. It should be on a local disk.",
       .fallback_text = "$XDG_RUNTIME_DIR/keyway, else /tmp/keyway-UID",
       .example = "/run/lock/backup",
       .section = "State"},
      {.letter = 'q',
       .name = "quiet",
       .help = "do not say who is in the way while it waits on a terminal",
       .section = "Display"},
      {.letter = 'v',
       .name = "verbose",
       .help = "say at once who is in the way, and which slot it got",
       .section = "Display"},
  };
}

Topic slots_topic() {
  return {.title = "Slots", .text = R"(
A slot is free again when the command ends, whatever it left running in the background. If keyway
is killed with SIGKILL, the command is killed too, and the slot is free when the last process that
it started is gone: until then the command's work may go on. There is no daemon, and nothing to
clean up after a crash.

Those who wait are served in the order they came. One that gives up or dies leaves the line; one
that is stopped (Ctrl-Z) keeps its place, and those behind it wait. A command that runs keyway
exec with its own key may wait for itself: use another key, or --no-wait.

The limit holds among processes of one machine that use the same folder. It does not hold on a
network file system, nor if the files in the folder are removed while they are in use; nor, after
kill -9 of keyway, for a command that has closed the descriptors it did not open, or that is
set-user-ID.)"};
}

Topic command_topic() {
  return {.title = "What the command sees", .text = R"(
It runs in the foreground, as if it had been typed: with the same terminal, standard input, output
and process group. `KEYWAY_KEY` is its key, and `KEYWAY_SLOT` which of the slots it has, from 1 to
N; no other command has the same one meanwhile. One more descriptor is open, which holds the slot.

Ctrl-C reaches the command, and keyway ends when it does. SIGINT, SIGQUIT, SIGTERM, SIGHUP,
SIGUSR1 and SIGUSR2 that are sent to keyway are passed on to it. While keyway still waits, SIGINT,
SIGTERM and SIGHUP end it, with status 130, 143 and 129.)"};
}

CommandSpec spec() {
  return {
      .name = "exec",
      .purpose = "run a command under a limit that all processes of the machine share",
      .description = R"(
Runs the command as soon as fewer than --limit commands with the same key are running on this
machine. Until then it waits, in the order of arrival. It ends with the status of the command, or
with 128 + n if signal n ended that.)",
      .examples = {{"keyway exec --key backup -- ./backup.sh", "one at a time, whoever starts it"},
                   {"keyway exec --key db --limit 2 --wait 5m -- pg_dump shop",
                    "two at a time; give up after five minutes"},
                   {"keyway exec --key mail --no-wait --timeout 10m -- fetchmail",
                    "not at all if it runs already, and not for ever"},
                   {"keyway exec --key gpu --limit 4 -- sh -c 'train --device $KEYWAY_SLOT'",
                    "each of four at once has another slot"}},
      .arguments = {{.name = "COMMAND",
                     .kind = ValueKind::kCommand,
                     .help = "a program and its arguments; no shell takes them apart"}},
      .options = options(),
      .topics = {slots_topic(), command_topic()},
      .environment = {{"XDG_RUNTIME_DIR", "See --state. Ignored if it belongs to another user."}},
      .files = {{"DIR/KEY.slots", "Who runs and who waits; removed when nobody does."}},
      .exits = {ExitCode::kUsage, ExitCode::kNotAcquired, ExitCode::kTimedOut,
                ExitCode::kOwnFailure, ExitCode::kNotExecutable, ExitCode::kNotFound},
      .see_also = {"keyway-batch(1)", "flock(1)", "sem(1)", "timeout(1)"}};
}

Result<exec::Options> exec_options(const Invocation& call) {
  const Settings& settings = call.settings;
  exec::Options options;
  options.key = settings.text("key");
  if (options.key.empty()) {
    return usage_error("exec: --key is missing", call.spec.examples.front().command);
  }
  const Result<int> limit = settings.number("limit", 1, kMostSlots);
  if (!limit) return limit.error();
  options.limit = *limit;
  if (settings.find("wait") != nullptr) {
    const auto wait = settings.duration("wait");
    if (!wait) return wait.error();
    if (settings.is_on("no-wait")) {
      return usage_error("exec: --wait and --no-wait exclude each other", "one of them");
    }
    options.wait = *wait;
  }
  if (settings.is_on("no-wait")) options.wait = std::chrono::milliseconds(0);
  if (settings.find("timeout") != nullptr) {
    const auto timeout = settings.duration("timeout");
    if (!timeout) return timeout.error();
    options.timeout = *timeout;
  }
  const auto runtime_folder = call.console.environment("XDG_RUNTIME_DIR");
  options.folder = exec::find_slot_folder(settings.text("state"),
                                          runtime_folder ? runtime_folder->c_str() : nullptr);
  options.command = call.command;
  if (settings.is_on("verbose")) {
    options.notice_after = std::chrono::milliseconds(0);
  } else if (call.console.err_is_terminal && !settings.is_on("quiet")) {
    options.notice_after = kTerminalNotice;
  }
  return options;
}

exec::Events exec_events(const Invocation& call, const exec::Options& options) {
  exec::Events events;
  const std::string key = printable(options.key);
  events.waiting = [&call, &options, key](const exec::Occupancy& occupancy) {
    print_note(call.console, fmt::format("waiting for key \"{}\": {}", key,
                                         occupancy_text(occupancy, options.limit)));
  };
  if (call.settings.is_on("verbose")) {
    events.running = [&call, key](int slot, std::chrono::nanoseconds waited) {
      print_note(call.console,
                 fmt::format("key \"{}\": slot {}, after {}", key, slot, human_duration(waited)));
    };
  }
  return events;
}

ExitCode run(const Invocation& call) {
  const Result<exec::Options> options = exec_options(call);
  if (!options) {
    print_error(call.console, options.error());
    return exit_code(options.error().code);
  }
  const exec::Ending ending = exec::run_exec(*options, exec_events(call, *options));
  switch (ending.kind) {
    case exec::Ending::kRan:
    case exec::Ending::kSignalled:
      break;
    case exec::Ending::kTimedOut:
      print_note(call.console,
                 fmt::format("{} ran longer than {}, and was ended", options->command.front(),
                             call.settings.text("timeout")));
      return ExitCode::kTimedOut;
    case exec::Ending::kNotRun:
      print_error(call.console, {ErrorCode::kIo, ending.message});
      break;
    case exec::Ending::kFull:
      print_error(call.console, full_error(*options, ending.occupancy));
      return ExitCode::kNotAcquired;
    case exec::Ending::kFailed:
      print_error(call.console, {ErrorCode::kIo, ending.message});
      return ExitCode::kOwnFailure;
  }
  return static_cast<ExitCode>(ending.status);
}

}  // namespace

Command exec_command() { return {.spec = spec(), .run = run}; }

}  // namespace keyway::cli
