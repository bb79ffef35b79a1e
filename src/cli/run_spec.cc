#include "cli/run_spec.h"

#include "cli/common_options.h"

namespace keyway::cli {
namespace {

std::vector<OptionSpec> record_options() {
  const std::string section = "Records";
  return {
      {.name = "key",
       .value = "PATH",
       .kind = ValueKind::kText,
       .help = "what keeps records in order: a place in their JSON, such as .user",
       .details = "`.user`, `.order.customer`, `.items[0].id`; `.` is the whole record. Records "
                  "with the same key are handled one after the other. Without --key no record "
                  "waits for another.",
       .example = ".user",
       .section = section},
      {.name = "group",
       .value = "PATH",
       .kind = ValueKind::kText,
       .help = "which limit a record is under, besides its key; see --limit",
       .fallback_text = "the key",
       .example = ".region",
       .section = section},
      {.name = "key-missing",
       .value = "WHAT",
       .kind = ValueKind::kText,
       .help = "a record that is not JSON, or has no key: fail, dead, skip, or a NAME to use",
       .details = "`fail` ends the run with status 3, to be resumed with another answer. `dead` "
                  "makes it a dead letter, `skip` leaves it out, any other word is its key.",
       .fallback = "fail",
       .choices = {"fail", "dead", "skip"},
       .configurable = true,
       .section = section},
      {.name = "order",
       .value = "HOW",
       .kind = ValueKind::kChoice,
       .help = "what is kept in order",
       .details = "Records of one key, records of one source, or nothing.",
       .fallback = "key",
       .choices = {"key", "partition", "none"},
       .section = section},
      {.name = "lines",
       .help = "records are plain lines: no JSON is looked for; --key . is the whole line",
       .section = section},
      {.name = "follow",
       .help = "go on at the end of the file, while it is appended to",
       .section = section},
      {.name = "until-end",
       .help = "end with the source; files always do, unless --follow is given",
       .section = section},
  };
}

std::vector<OptionSpec> handler_options() {
  const std::string section = "Handler";
  return {
      {.name = "worker",
       .help = "COMMAND is a worker: it runs on, and takes a record per line; see Workers",
       .section = section},
      {.name = "http",
       .value = "URL",
       .kind = ValueKind::kText,
       .help = "POST each record to this address instead of running a command; see HTTP",
       .example = "http://localhost:8080/orders",
       .section = section},
      {.name = "shell",
       .help = "COMMAND is a text for sh -c; what stands for {} and the like is quoted",
       .section = section},
  };
}

std::vector<OptionSpec> delivery_options() {
  const std::string section = "Delivery";
  return {
      {.name = "delivery",
       .value = "HOW",
       .kind = ValueKind::kChoice,
       .help = "what holds after a crash",
       .details =
           "`at-least-once` commits a record when it is done: after a crash, those that were "
           "not committed come again. `at-most-once` commits it before it is handled.",
       .fallback = "at-least-once",
       .choices = {"at-least-once", "at-most-once"},
       .configurable = true,
       .section = section},
      {.name = "dead",
       .value = "WHERE",
       .kind = ValueKind::kFile,
       .help = "where records go that are given up: a file, or log for standard error",
       .fallback_text = "dead.jsonl in the state folder",
       .example = "dead.jsonl",
       .section = section},
      {.name = "on-dead",
       .value = "WHAT",
       .kind = ValueKind::kChoice,
       .help = "what happens after a dead letter",
       .details = "`park` makes the following records of that key dead letters too, so that they "
                  "can be replayed in order. `halt` ends the run with status 4.",
       .fallback = "continue",
       .choices = {"continue", "park", "halt"},
       .configurable = true,
       .section = section},
      {.name = "dedup",
       .value = "STORE",
       .kind = ValueKind::kText,
       .help = "pass over records that were handled: none, or sqlite:FILE, where their ids are",
       .details = "For handlers that must not see a record twice. Ids are kept for 30 days.",
       .fallback = "none",
       .choices = {"none", "sqlite:handled.db"},
       .configurable = true,
       .section = section},
      {.name = "commit-interval",
       .value = "TIME",
       .kind = ValueKind::kDuration,
       .help = "how often what is done is written to the checkpoint",
       .fallback = "1s",
       .choices = {"100ms", "1s", "10s"},
       .configurable = true,
       .section = section},
      {.name = "max-inflight",
       .value = "N",
       .kind = ValueKind::kNumber,
       .help = "how many records of a source wait in line or run at once",
       .details =
           "Of one key at most a tenth of them: its further records are set aside, so that others "
           "can pass, up to 100,000 records behind the first that is not done.",
       .fallback = "10000",
       .configurable = true,
       .section = section},
      {.name = "max-inflight-bytes",
       .value = "SIZE",
       .kind = ValueKind::kText,
       .help = "how much of all sources is in memory at once",
       .fallback = "256MiB",
       .choices = {"64MiB", "256MiB", "1GiB"},
       .configurable = true,
       .section = section},
  };
}

std::vector<OptionSpec> options() {
  std::vector<OptionSpec> all = record_options();
  append(all, handler_options());
  std::vector<OptionSpec> limits = limit_options();
  for (OptionSpec& option : limits) {
    if (option.name == "jobs")
      option.fallback_text = "the number of CPUs; 16 with --worker or --http";
    if (option.name == "limit") {
      option.help = "how many of one group run at once; without --group, of one key";
    }
  }
  append(all, std::move(limits));
  append(all, failure_options("record"));
  append(all, delivery_options());
  append(all, insight_options("record", "key"));
  append(all, display_options());
  append(all, state_options("SOURCE"));
  return all;
}

Topic command_topic() {
  return {.title = "Commands", .text = R"(
A process for each try of a record, in a process group of its own, with the record and a newline on
its standard input. Exit status 0 is done; 65 is a failure that no other try would mend, and makes
the record a dead letter at once; anything else is tried again while there are --retries left. What
a try that is done wrote to standard output is printed, that of others is dropped; what it wrote to
standard error is printed. With --json, standard output is the summary's alone.

In COMMAND and its arguments, `{}` stands for the record, `{key}`, `{group}`, `{id}`, `{seq}` (the
line), `{slot}` (which of the --jobs places it has), `{attempt}` (which try, from 1) for what they
say, `{.a.b}` for a part of its JSON, and `{{` for a brace. No shell takes the words apart.

The environment has `KEYWAY_KEY`, `KEYWAY_GROUP`, `KEYWAY_ID`, `KEYWAY_SEQ`, `KEYWAY_ATTEMPT`,
`KEYWAY_MAX_ATTEMPTS`, `KEYWAY_SLOT`, `KEYWAY_RUN_ID`, `KEYWAY_SOURCE`, `KEYWAY_PARTITION`,
`KEYWAY_OFFSET` and, with a timeout, `KEYWAY_DEADLINE` (in milliseconds since 1970).)"};
}

Topic worker_topic() {
  return {.title = "Workers",
          .text = R"(
With --worker, up to --jobs processes of COMMAND run on, each with one record at a time: one JSON
object per line, on standard input and output, 16 MiB at most. A record that is not JSON comes as a
string, or as `record_b64` if it is no UTF-8. What a worker writes to standard error is printed. A
worker starts with its first record, and is to exit at the end of its input. One that dies fails
only the record it had, and is started again; five deaths in a row end the run with status 3.)",
          .sample = R"(-> {"v":1,"type":"hello","run":"r1","worker":3,"max_inflight":1}
<- {"v":1,"type":"ready"}
-> {"type":"job","id":"f:1042","key":"u7","group":"u7","seq":1042,"attempt":1,"deadline_ms":30000,"record":{}}
<- {"id":"f:1042","ok":true,"out":{}}
<- {"id":"f:1042","ok":false,"error":"402","retry":true,"retry_after_ms":500}
)"};
}

Topic http_topic() {
  return {.title = "HTTP", .text = R"(
With --http, each record is POSTed, with the headers `Keyway-Key`, `Keyway-Id`, `Keyway-Attempt` and
an `Idempotency-Key` that is the same whenever this record comes again, also after a restart. A 2xx
status is done. 408, 425, 429, 5xx and a network that fails are tried again, after the time that
`Retry-After` says; any other 4xx makes it a dead letter.)"};
}

Topic resuming_topic() {
  return {.title = "Resuming", .text = R"(
What is done is kept in the state folder: up to where everything is done, and what is done beyond
that. The same command again goes on from there, and says so. It is refused (status 5) if the
beginning of the source, the --key or the --order are others than before: --fresh begins anew, and
puts the dead letters aside as dead.jsonl.old. Standard input has no folder beside it and needs
--name; what comes again must be the same from its beginning.)"};
}

Topic signals_topic() {
  return {.title = "Signals", .text = R"(
The first Ctrl-C or SIGTERM reads no more records and lets those that run finish, up to --grace;
what is done is committed. The second sends SIGTERM to what still runs, the third SIGKILL; their
records are left for the next run. SIGHUP does the same as the first SIGTERM. SIGUSR1 prints what
runs.)"};
}

}  // namespace

CommandSpec run_spec() {
  return {
      .name = "run",
      .purpose = "handle a stream of records in parallel, in order per key",
      .description = R"(
Reads records, one per line, and has each handled: by a process of its own, a long-lived worker, or
a server. Records with the same key are handled one after the other, in the order of the source;
all others side by side, up to --jobs at once. A record that fails is tried again after a while;
meanwhile its key waits, and nobody else does. One that fails for good becomes a dead letter.

No record is lost, whatever ends the run: what was not done is handled by the same command, called
again.)",
      .examples = {{"keyway run orders.jsonl --key .user -- ./bill.sh",
                    "a process per order; the orders of one user one after the other"},
                   {"keyway run orders.jsonl --key .user --worker -j 32 -- python3 bill.py",
                    "32 long-lived workers"},
                   {"keyway run orders.jsonl --key .user --http http://localhost:8080/bill",
                    "POST each order"},
                   {"keyway run hosts.txt --lines -j 20 -- ssh {} uptime",
                    "plain lines; nothing in order"},
                   {"keyway run app.log --follow --key .session --dead log -- ./index",
                    "for ever; dead letters to the log"},
                   {"kcat -C -t orders | keyway run - --name orders --key .user -- ./bill.sh",
                    "from a pipe; the state is in orders.keyway"}},
      .arguments = {{.name = "SOURCE",
                     .kind = ValueKind::kFile,
                     .help = "a file of JSON lines, or of plain ones with --lines; - is standard "
                             "input",
                     .repeats = true},
                    {.name = "COMMAND",
                     .kind = ValueKind::kCommand,
                     .help = "a program and its arguments; no shell takes them apart",
                     .required = false}},
      .options = options(),
      .topics = {command_topic(), worker_topic(), http_topic(), resuming_topic(), signals_topic()},
      .environment = {{"NO_COLOR, CLICOLOR_FORCE, TERM", "See --color."},
                      {"HOME, XDG_CONFIG_HOME", "See Configuration."}},
      .files = {{"SOURCE.keyway/checkpoint", "What is done; see Resuming."},
                {"SOURCE.keyway/joblog.jsonl",
                 "Every try of every record: when it was queued, began and ended, and how. After a "
                 "crash it may lack the last second."},
                {"SOURCE.keyway/dead.jsonl", "Dead letters; see keyway-dead(1)."},
                {"SOURCE.keyway/command.json", "How the run was called, for keyway-dead(1)."},
                {"SOURCE.keyway/lock", "Held while a run uses the folder."},
                {"keyway.toml, ~/.config/keyway/config.toml", "See Configuration."}},
      .exits = {ExitCode::kOk, ExitCode::kSomeFailed, ExitCode::kUsage, ExitCode::kResumable,
                ExitCode::kHalted, ExitCode::kState, ExitCode::kInterrupted, ExitCode::kTerminated},
      .see_also = {"keyway-dead(1)", "keyway-batch(1)", "keyway-config(1)", "kcat(1)", "xargs(1)"},
      .reads_configuration = true};
}

}  // namespace keyway::cli
