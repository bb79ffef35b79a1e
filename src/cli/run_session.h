// What `keyway batch` and `keyway run` say while they run, and afterwards.
//
// Thread safety: one thread. Lifetime: the invocation and the flags outlive it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "cli/common_flags.h"
#include "cli/progress_view.h"
#include "cli/run_words.h"
#include "cli/summary_text.h"
#include "jobs/run_progress.h"
#include "jobs/watch.h"
#include "report/run_recorder.h"

namespace keyway::cli {

class RunSession {
 public:
  // `report`: what a report calls things.
  RunSession(const Invocation& call, const CommonFlags& flags, const RunWords& words,
             ReportTexts report);

  // With -v: every option that is set, and by whom.
  void say_settings();
  // Everything of `watch` that has to do with the screen and the report.
  void attach(jobs::Watch& watch);
  RunRecorder* recorder() { return recorder_ ? &*recorder_ : nullptr; }

  // The last word: errors, the report, the summary.
  ExitCode finish(Result<jobs::Summary> summary);

 private:
  void attempt_ended(const LoggedAttempt& attempt);
  bool write_report(jobs::Summary& summary);
  void say(std::string_view text);

  const Invocation& call_;
  const CommonFlags& flags_;
  const RunWords& words_;
  const Style style_;
  ProgressView view_;
  jobs::Progress last_;
  std::vector<FailedJob> failed_;
  std::optional<RunRecorder> recorder_;  // if a report is wanted
};

}  // namespace keyway::cli
