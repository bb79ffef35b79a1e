#include "cli/common_options.h"

#include <algorithm>
#include <iterator>

#include <sched.h>

namespace keyway::cli {

int usable_processors() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(CPU_COUNT(&set), 1);
}

std::vector<OptionSpec> limit_options() {
  const std::string section = "Limits";
  return {
      {.letter = 'j',
       .name = "jobs",
       .value = "N",
       .kind = ValueKind::kNumber,
       .help = "how many run at once, in all groups together",
       .fallback = std::to_string(usable_processors()),
       .fallback_text = "the number of CPUs",
       .example = "8",
       .configurable = true,
       .section = section},
      {.name = "limit",
       .value = "N",
       .kind = ValueKind::kNumber,
       .help = "how many of one group run at once, unless --limits says otherwise",
       .details = "A `limit` under `[default]` in the file of --limits comes before a --limit from "
                  "a weaker source than the one that names the file.",
       .fallback = "1",
       .example = "2",
       .configurable = true,
       .section = section},
      {.name = "limits",
       .value = "FILE",
       .kind = ValueKind::kFile,
       .help = "read the limits of groups from a TOML file",
       .details = "See Limits file.",
       .example = "limits.toml",
       .configurable = true,
       .section = section},
  };
}

void append(std::vector<OptionSpec>& options, std::vector<OptionSpec> more) {
  options.insert(options.end(), std::make_move_iterator(more.begin()),
                 std::make_move_iterator(more.end()));
}

std::vector<OptionSpec> failure_options(const std::string& item) {
  const std::string section = "Failures";
  return {
      {.name = "retries",
       .value = "N",
       .kind = ValueKind::kNumber,
       .help = "how often a failed " + item + " is tried again",
       .fallback = "3",
       .configurable = true,
       .section = section},
      {.name = "backoff",
       .value = "MIN..MAX",
       .kind = ValueKind::kText,
       .help = "wait before a retry, doubled each time",
       .details = "Try n+1 begins after a random part of MIN times two to the power n-1, or of "
                  "MAX if that is shorter. Meanwhile the " +
                  item + " takes no place of --jobs.",
       .fallback = "500ms..30s",
       .choices = {"500ms..30s", "1s..5m"},
       .configurable = true,
       .section = section},
      {.name = "timeout",
       .value = "TIME",
       .kind = ValueKind::kDuration,
       .help = "end a try that takes longer; 0 is never",
       .details = "It gets SIGTERM and, after a while, SIGKILL, with all its processes.",
       .fallback = "0",
       .choices = {"30s", "5m", "1h"},
       .example = "30s",
       .configurable = true,
       .section = section},
      {.name = "grace",
       .value = "TIME",
       .kind = ValueKind::kDuration,
       .help = "how long what runs may go on after Ctrl-C or SIGTERM",
       .fallback = "30s",
       .choices = {"0", "30s", "5m"},
       .configurable = true,
       .section = section},
      {.name = "halt",
       .value = "WHEN",
       .kind = ValueKind::kText,
       .help = "stop the run after failures: never, now,fail=N, soon,fail=N or soon,fail=N%",
       .details = "`soon` starts nothing more and lets what runs finish; `now` ends it. With % it "
                  "is that part of the " +
                  item + "s that ended. The rest is run by the same command, called again.",
       .fallback = "never",
       .choices = {"never", "now,fail=1", "soon,fail=1", "soon,fail=10%"},
       .example = "soon,fail=3",
       .configurable = true,
       .section = section},
  };
}

OptionSpec color_option() {
  return {.name = "color",
          .value = "WHEN",
          .kind = ValueKind::kChoice,
          .help = "colour what is printed",
          .details =
              "`auto` is for terminals, unless `NO_COLOR` is set or `TERM` is dumb; "
              "`CLICOLOR_FORCE` makes it colour files and pipes too.",
          .fallback = "auto",
          .choices = {"auto", "always", "never"},
          .configurable = true,
          .section = "Display"};
}

OptionSpec json_option(std::string help) {
  return {.name = "json", .help = std::move(help), .section = "Display"};
}

std::vector<OptionSpec> display_options() {
  const std::string section = "Display";
  return {
      {.name = "progress",
       .value = "HOW",
       .kind = ValueKind::kChoice,
       .help = "show progress on standard error",
       .details = "`bar` is one line, redrawn in place up to ten times a second; `plain` is a line "
                  "every ten seconds; `json` is an object per second. `auto` is a bar on a "
                  "terminal, else plain.",
       .fallback = "auto",
       .choices = {"auto", "bar", "plain", "json", "none"},
       .configurable = true,
       .section = section},
      {.letter = 'q',
       .name = "quiet",
       .help = "say nothing but errors: no progress, no summary",
       .section = section},
      {.letter = 'v',
       .name = "verbose",
       .help = "also say what was asked for, and each try that fails",
       .section = section},
      json_option("print the summary as one object on standard output"),
      color_option(),
  };
}

std::vector<OptionSpec> insight_options(const std::string& item, const std::string& group) {
  return {{.name = "report",
           .value = "FILE.html",
           .kind = ValueKind::kFile,
           .help = "write a page with the timeline of every " + group + " and " + item,
           .details = "One file that a browser opens without a server.",
           .example = "report.html",
           .section = "Output"},
          {.letter = 'n',
           .name = "dry-run",
           .help = "run nothing; print each " + item + ", and the " + group + "s with their limits",
           .section = "Output"}};
}

std::vector<OptionSpec> state_options(const std::string& input) {
  const std::string section = "State";
  return {
      {.name = "state",
       .value = "DIR",
       .kind = ValueKind::kFolder,
       .help = "keep what a later run goes on from in this folder",
       .fallback_text = input + ".keyway beside the input",
       .example = "run1.keyway",
       .section = section},
      {.name = "name",
       .value = "NAME",
       .kind = ValueKind::kText,
       .help = "what to call a run that reads standard input; its folder is NAME.keyway",
       .example = "nightly",
       .section = section},
      {.name = "fresh", .help = "forget an earlier run instead of resuming it", .section = section},
  };
}

}  // namespace keyway::cli
