// Shows progress on standard error, at a pace that fits who reads it.
//
//   ProgressView view(ProgressMode::kBar, console, style);
//   view.update(progress);     // as often as one likes
//   view.clear();              // before anything else is written to the terminal
//
// Guarantees:
//   (1) A bar is drawn at most ten times a second, a plain line every ten seconds, an object of
//       JSON every second; what comes sooner is not shown.
//   (2) A bar is one line that never wraps. It is fitted to the terminal's width at each drawing,
//       and what is left of a wider one after a resize is wiped out.
//   (3) The cursor is never hidden, and stands at the beginning of the line: whatever ends the
//       process, the terminal needs no repair.
//   (4) After clear(), or the destructor, nothing of a bar is left.
// The clock is Progress::elapsed: it has no other.
//
// Thread safety: none; one thread at a time.
// Lifetime: the console outlives it.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "cli/console.h"
#include "cli/progress_text.h"
#include "jobs/run_progress.h"

namespace keyway::cli {

enum class ProgressMode { kBar, kPlain, kJson, kNone };

// `choice`: a value of --progress; auto is a bar on a terminal that can show one, else plain lines.
ProgressMode progress_mode(const std::string& choice, bool quiet, const Console& console);

class ProgressView {
 public:
  ProgressView(ProgressMode mode, const Console& console, Style style,
               const RunWords& words = kBatchWords)
      : mode_(mode), console_(console), style_(style), words_(words) {}
  ~ProgressView() { clear(); }
  ProgressView(const ProgressView&) = delete;
  ProgressView& operator=(const ProgressView&) = delete;

  void update(const jobs::Progress& progress);
  void clear();

  // The last word: JSON gets its final object, a bar goes.
  void finish(const jobs::Progress& progress);

  // How often update() is worth calling.
  std::chrono::milliseconds pace() const;

 private:
  void show(const jobs::Progress& progress);

  const ProgressMode mode_;
  const Console& console_;
  const Style style_;
  const RunWords& words_;
  RateMeter rate_;
  std::optional<std::chrono::milliseconds> shown_at_;
  bool is_drawn_ = false;
};

}  // namespace keyway::cli
