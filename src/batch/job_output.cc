#include "batch/job_output.h"

namespace keyway::batch {

void JobOutput::output(Stream stream, std::string_view text) {
  switch (mode_) {
    case OutputMode::kGroup:
    case OutputMode::kKeepOrder:
      kept(stream).append(text);
      break;
    case OutputMode::kLine:
      pass_on_lines(stream, text);
      break;
    case OutputMode::kNone:
      break;
  }
}

void JobOutput::pass_on_lines(Stream stream, std::string_view text) {
  std::string& unfinished = unfinished_[static_cast<std::size_t>(stream)];
  std::size_t whole = text.rfind('\n');
  whole = whole == std::string_view::npos ? 0 : whole + 1;
  if (whole > 0) {
    unfinished += text.substr(0, whole);
    printer_.print_text(stream, unfinished);
    unfinished.clear();
  }
  unfinished += text.substr(whole);
  if (unfinished.size() > kLongestLine) {
    printer_.print_text(stream, unfinished);
    unfinished.clear();
  }
  if (printer_.congested() && process_ != nullptr) process_->pause_output();
}

void JobOutput::finish() {
  for (const Stream stream : {Stream::kOut, Stream::kErr}) {
    kept(stream).finish();
    std::string& unfinished = unfinished_[static_cast<std::size_t>(stream)];
    if (!unfinished.empty()) printer_.print_text(stream, unfinished + "\n");
    unfinished.clear();
  }
}

}  // namespace keyway::batch
