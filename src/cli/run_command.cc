// `keyway run`: from flags to the engine, and from what it tells to the screen.
#include <algorithm>
#include <chrono>

#include "cli/commands.h"
#include "cli/replay_words.h"
#include "cli/run_flags.h"
#include "cli/run_plan.h"
#include "cli/run_session.h"
#include "cli/run_spec.h"
#include "run/run_stream.h"

namespace keyway::cli {
namespace {

ExitCode fail(const Invocation& call, const Error& error) {
  print_error(call.console, error, call.color);
  return cli::exit_code(error.code);
}

ExitCode run_records(const Invocation& call, const RunFlags& flags) {
  const std::string& source = flags.options.sources.front();
  const bool by_group = !flags.options.group.empty();
  RunSession session(call, flags.common, kStreamWords,
                     {.title = source == "-" ? "records" : source,
                      .command = "keyway run",
                      .item = "record",
                      .items = "records",
                      .group = by_group ? "group" : "key",
                      .groups = by_group ? "groups" : "keys"});
  session.say_settings();
  run::Watch watch;
  session.attach(watch);
  if (RunRecorder* const recorder = session.recorder()) {
    watch.every = std::min<std::chrono::milliseconds>(watch.every, std::chrono::milliseconds(100));
    watch.sample = [recorder](const StreamSample& sample) { recorder->add(sample); };
  }
  return session.finish(run::run_stream(flags.options, watch));
}

ExitCode dry_run(const Invocation& call, const RunFlags& flags) {
  const bool tells_records = !flags.common.json && !flags.common.quiet;
  const Result<RunPlan> plan = plan_run(flags.options, [&](std::string_view line) {
    if (tells_records) call.console.out(line);
  });
  if (!plan) return fail(call, plan.error());
  call.console.out(flags.common.json ? plan_json(*plan) + "\n" : plan_text(*plan));
  return ExitCode::kOk;
}

ExitCode run(const Invocation& call) {
  Result<RunFlags> flags = run_flags(call);
  if (!flags) return fail(call, flags.error());
  flags->options.command_line = run_words(call);
  return flags->common.dry_run ? dry_run(call, *flags) : run_records(call, *flags);
}

}  // namespace

Command run_command() { return {.spec = run_spec(), .run = run}; }

}  // namespace keyway::cli
