#include "batch/job_output.h"

#include <algorithm>

namespace keyway::batch {

void JobOutput::output(Stream stream, std::string_view text) {
  switch (mode_) {
    case OutputMode::kGroup:
    case OutputMode::kKeepOrder:
      kept(stream).append(text);
      break;
    case OutputMode::kLine:
      if (stream == Stream::kErr) {
        end_of_errors_ += text.substr(text.size() - std::min(text.size(), kEndBytes));
        const std::size_t beyond =
            end_of_errors_.size() - std::min(end_of_errors_.size(), kEndBytes);
        end_of_errors_.erase(0, beyond);
      }
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

std::string JobOutput::end_of_errors() const {
  if (mode_ == OutputMode::kLine) return end_of_errors_;
  const CapturedOutput& errors = kept_[static_cast<std::size_t>(Stream::kErr)];
  std::string end(std::min<std::uint64_t>(errors.size(), kEndBytes), '\0');
  end.resize(errors.read(errors.size() - end.size(), end).size());
  return end;
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
