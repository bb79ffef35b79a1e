#include "cli/batch_spec.h"

#include "cli/common_options.h"

namespace keyway::cli {
namespace {

std::vector<OptionSpec> options() {
  std::vector<OptionSpec> all = limit_options();
  append(all, failure_options("job"));
  all.push_back({.name = "output",
                 .value = "HOW",
                 .kind = ValueKind::kChoice,
                 .help = "when jobs' output is printed",
                 .details = "`group`: each job's in one piece when it has ended. `line`: line by "
                            "line, as it comes. `keep-order`: in one piece, in the order of the "
                            "input. `none`: not at all; this is the default with --json. What a "
                            "job writes to standard error goes to standard error.",
                 .fallback = "group",
                 .choices = {"group", "line", "keep-order", "none"},
                 .configurable = true,
                 .section = "Output"});
  append(all, insight_options("job", "group"));
  append(all, display_options());
  append(all, state_options("JOBS"));
  return all;
}

Topic jobs_topic() {
  return {.title = "Jobs file",
          .text = R"(
One JSON object per line. `cmd` is the command as a list of words, which no shell takes apart;
`sh` is a line for `/bin/sh -c` instead. One of them is needed; all else may be left out. A field
that is not known is an error. All lines are checked before the first job starts; those of
standard input, as they come.

`id` names the job in joblog, summary and report, and must be unique; without it the job is
called by the number of its line. `group` says which limit it is under; without it the group is
called default. `env` adds variables, `cwd` is the folder to run in. `timeout` and `retries`
stand for --timeout and --retries, for this job. `weight` is how many jobs it counts as, for its
group's limit and for --jobs.)",
          .sample = R"({"id":"a1","group":"vip","cmd":["convert","a.png","a.jpg"]}
{"id":"a2","group":"db","sh":"pg_dump shop | gzip > shop.gz","timeout":"10m"}
)"};
}

Topic command_topic() {
  return {.title = "What a job sees", .text = R"(
A job runs with an empty standard input, in a process group of its own, and with these variables:
`KEYWAY_ID`, `KEYWAY_GROUP`, `KEYWAY_KEY` (the group), `KEYWAY_SEQ` (which job of the input it
is), `KEYWAY_ATTEMPT` (which try, from 1), `KEYWAY_MAX_ATTEMPTS`, `KEYWAY_SLOT` (which of the
--jobs places it has, from 1), `KEYWAY_RUN_ID` and, with a timeout, `KEYWAY_DEADLINE` (in
milliseconds since 1970).

Exit status 0 is success. 65 is a failure that no other try would mend: the job fails at once.
Anything else is tried again while there are --retries left.

What a try that is repeated wrote to standard output is dropped, so that there is one result for
each job; what it wrote to standard error is printed. With `--output line` both are out already.)"};
}

Topic limits_topic() {
  return {.title = "Limits file",
          .text = R"(
TOML. Under `[groups]`, a number is how many jobs of that group run at once. `[default]` is for
every group that is not named. `max_in_flight` caps `limit`; `queue` is how many may wait, and a
job beyond it is refused and fails. A group that no job has is a warning: one file may serve
several lists of jobs.)",
          .sample = R"([default]
limit = 1

[groups]
vip = 4
db = { limit = 2, queue = 100 }
)"};
}

Topic signals_topic() {
  return {.title = "Signals", .text = R"(
The first Ctrl-C or SIGTERM starts no more jobs and lets those that run finish, up to --grace. The
second sends SIGTERM to them, the third SIGKILL. SIGHUP does the same as the first SIGTERM.
SIGUSR1 prints what runs.)"};
}

}  // namespace

CommandSpec batch_spec() {
  return {
      .name = "batch",
      .purpose = "run a list of commands, each in a group, under group limits",
      .description = R"(
Runs every job of a file and keeps the result of each. Jobs of one group run up to the group's
limit, in the order of the file; jobs of different groups run side by side, up to --jobs in all. A
job that fails is tried again after a while; one that fails for good holds nobody up, unless
--halt says so.

What was done is kept in a folder beside the file. A run that was halted, interrupted or killed is
resumed by the same command: jobs that succeeded are not run again, those that failed are.
Meanwhile lines may be added to the file, and those of jobs that failed corrected; a run is
refused if the line of a job that succeeded is another one now. --fresh begins anew.)",
      .examples = {{"keyway batch jobs.jsonl",
                    "one job of each group at a time, as many groups as CPUs"},
                   {"keyway batch jobs.jsonl -j 32 --limits limits.toml",
                    "32 at once, and for each group what the file says"},
                   {"keyway batch jobs.jsonl -n", "what would be run, group by group"},
                   {"keyway batch jobs.jsonl --halt soon,fail=10% --report report.html",
                    "stop when a tenth of the jobs have failed; draw what happened"},
                   {"make-jobs | keyway batch - --name nightly --json | jq .failed",
                    "jobs from a pipe; the summary for a machine"}},
      .arguments = {{.name = "JOBS",
                     .kind = ValueKind::kFile,
                     .help = "a file of jobs, one JSON object per line; - is standard input"}},
      .options = options(),
      .topics = {jobs_topic(), command_topic(), limits_topic(), signals_topic()},
      .environment = {{"NO_COLOR, CLICOLOR_FORCE, TERM", "See --color."},
                      {"HOME, XDG_CONFIG_HOME", "See Configuration."}},
      .files = {{"JOBS.keyway/joblog.jsonl",
                 "Every try of every job: when it was queued, began and ended, and how."},
                {"JOBS.keyway/lock", "Held while a run uses the folder."},
                {"keyway.toml, ~/.config/keyway/config.toml", "See Configuration."}},
      .exits = {ExitCode::kOk, ExitCode::kSomeFailed, ExitCode::kUsage, ExitCode::kResumable,
                ExitCode::kHalted, ExitCode::kState, ExitCode::kInterrupted, ExitCode::kTerminated},
      .see_also = {"keyway-config(1)", "parallel(1)", "xargs(1)"},
      .reads_configuration = true};
}

}  // namespace keyway::cli
