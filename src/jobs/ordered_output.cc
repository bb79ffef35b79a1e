#include "jobs/ordered_output.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace keyway::jobs {

void OrderedOutput::copy(const CapturedOutput& text, std::size_t stream, Held& held) {
  held.begin[stream] = store_.size();
  std::vector<char> buffer(std::min<std::uint64_t>(text.size(), 64 * 1024));
  for (std::uint64_t at = 0; at < text.size();) {
    const std::string_view piece = text.read(at, buffer);
    if (piece.empty()) break;
    store_.append(piece);
    at += piece.size();
  }
  held.size[stream] = store_.size() - held.begin[stream];
  const std::uint64_t lost = text.size() - held.size[stream];
  if (lost == 0) return;
  held.note = "\nkeyway: " + std::to_string(lost) +
              " bytes of output are missing here: no room for temporary files; set TMPDIR to a "
              "larger place\n";
}

void OrderedOutput::add(std::uint64_t seq, const CapturedOutput& out, const CapturedOutput& err) {
  Held held;
  copy(out, 0, held);
  copy(err, 1, held);
  held_.emplace(seq, std::move(held));
  print_next();
}

void OrderedOutput::skip(std::uint64_t seq) {
  held_.emplace(seq, Held{});
  print_next();
}

void OrderedOutput::finish() {
  finishing_ = true;
  print_next();
}

// printed() may come while print() is under way: then the loop that is at work already goes on.
void OrderedOutput::print_next() {
  if (in_loop_) return;
  in_loop_ = true;
  const std::uint64_t before = next_;
  while (!printing_ && !held_.empty() && (finishing_ || held_.begin()->first == next_)) {
    now_ = std::move(held_.begin()->second);
    next_ = held_.begin()->first + 1;
    held_.erase(held_.begin());
    if (now_.size[0] + now_.size[1] == 0 && now_.note.empty()) continue;
    printing_ = true;
    begin_again();
    printer_.print(*this);
  }
  in_loop_ = false;
  if (held_.empty() && !printing_ && !store_.empty()) store_ = CapturedOutput(kMemoryBytes);
  if (next_ != before) advanced_();
}

std::uint64_t OrderedOutput::size(Stream stream) const {
  return now_.size[static_cast<std::size_t>(stream)] +
         (stream == Stream::kErr ? now_.note.size() : 0);
}

std::string_view OrderedOutput::read(Stream stream, std::uint64_t offset, std::span<char> buffer) {
  const auto index = static_cast<std::size_t>(stream);
  if (offset >= now_.size[index])
    return std::string_view(now_.note).substr(offset - now_.size[index]);
  const std::uint64_t left = now_.size[index] - offset;
  return store_.read(now_.begin[index] + offset,
                     buffer.first(std::min<std::uint64_t>(buffer.size(), left)));
}

void OrderedOutput::printed() {
  printing_ = false;
  print_next();
}

}  // namespace keyway::jobs
