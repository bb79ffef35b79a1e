// `keyway batch`: from flags to the engine, and from what it tells to the screen.
#include "batch/batch.h"
#include "cli/batch_flags.h"
#include "cli/batch_plan.h"
#include "cli/batch_spec.h"
#include "cli/commands.h"
#include "cli/run_session.h"

namespace keyway::cli {
namespace {

ExitCode run_jobs(const Invocation& call, const BatchFlags& flags) {
  const std::string& file = flags.options.jobs_file;
  RunSession session(call, flags.common, kBatchWords, {.title = file == "-" ? "jobs" : file});
  session.say_settings();
  if (flags.common.limits_file && !flags.common.quiet) {
    for (const std::string& warning :
         warn_of_unused_groups(flags.options, *flags.common.limits_file)) {
      print_warning(call.console, warning, call.color);
    }
  }
  jobs::Watch watch;
  session.attach(watch);
  return session.finish(batch::run_batch(flags.options, watch));
}

ExitCode dry_run(const Invocation& call, const BatchFlags& flags) {
  const bool tells_jobs = !flags.common.json && !flags.common.quiet;
  const Result<BatchPlan> plan = plan_batch(flags.options, [&](std::string_view line) {
    if (tells_jobs) call.console.out(line);
  });
  if (!plan) {
    print_error(call.console, plan.error(), call.color);
    return cli::exit_code(plan.error().code);
  }
  call.console.out(flags.common.json ? plan_json(*plan) + "\n" : plan_text(*plan));
  return ExitCode::kOk;
}

ExitCode run(const Invocation& call) {
  const Result<BatchFlags> flags = batch_flags(call);
  if (!flags) {
    print_error(call.console, flags.error(), call.color);
    return cli::exit_code(flags.error().code);
  }
  return flags->common.dry_run ? dry_run(call, *flags) : run_jobs(call, *flags);
}

}  // namespace

Command batch_command() { return {.spec = batch_spec(), .run = run}; }

}  // namespace keyway::cli
