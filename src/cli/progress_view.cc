#include "cli/progress_view.h"

#include <algorithm>

namespace keyway::cli {
namespace {

// Back to the beginning, and wipe out everything behind it, also in the lines below: a line that
// the terminal has wrapped since it was drawn goes as a whole.
constexpr std::string_view kWipe = "\r\x1b[J";

}  // namespace

ProgressMode progress_mode(const std::string& choice, bool quiet, const Console& console) {
  if (choice == "bar") return ProgressMode::kBar;
  if (choice == "plain") return ProgressMode::kPlain;
  if (choice == "json") return ProgressMode::kJson;
  if (choice == "none" || quiet) return ProgressMode::kNone;
  return console.err_is_terminal && !console.is_dumb() ? ProgressMode::kBar : ProgressMode::kPlain;
}

std::chrono::milliseconds ProgressView::pace() const {
  switch (mode_) {
    case ProgressMode::kBar:
      return std::chrono::milliseconds(100);
    case ProgressMode::kJson:
      return std::chrono::seconds(1);
    case ProgressMode::kPlain:
    case ProgressMode::kNone:
      break;
  }
  return std::chrono::seconds(10);
}

void ProgressView::update(const jobs::Progress& progress) {
  rate_.add(progress.elapsed, progress.ended);
  // A bar is there from the start; a line in a log only once a run takes long.
  if (!shown_at_) {
    if (mode_ != ProgressMode::kBar) {
      shown_at_ = std::chrono::milliseconds(0);
    } else {
      show(progress);
      return;
    }
  }
  if (progress.elapsed - *shown_at_ >= pace()) show(progress);
}

void ProgressView::finish(const jobs::Progress& progress) {
  rate_.add(progress.elapsed, progress.ended);
  // Without an update there was no run to speak of.
  if (mode_ == ProgressMode::kJson && shown_at_) show(progress);
  clear();
}

void ProgressView::clear() {
  if (!is_drawn_) return;
  is_drawn_ = false;
  console_.err(kWipe);
}

void ProgressView::show(const jobs::Progress& progress) {
  shown_at_ = progress.elapsed;
  const double per_second = rate_.per_second();
  switch (mode_) {
    case ProgressMode::kBar: {
      // The last column stays free: a character there makes some terminals wrap.
      const int columns = std::max(console_.columns().value_or(80) - 1, 1);
      std::string text = "\r" + progress_line(progress, per_second, columns, style_, words_);
      text += "\x1b[J\r";
      console_.err(text);
      is_drawn_ = true;
      break;
    }
    case ProgressMode::kPlain: {
      constexpr int kAnyWidth = 10'000;
      console_.err(progress_line(progress, per_second, kAnyWidth, Style{}, words_) + "\n");
      break;
    }
    case ProgressMode::kJson:
      console_.err(progress_json(progress, per_second, words_) + "\n");
      break;
    case ProgressMode::kNone:
      break;
  }
}

}  // namespace keyway::cli
