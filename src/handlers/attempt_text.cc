#include "handlers/attempt_text.h"

#include <cstring>

#include "base/human_text.h"

namespace keyway::run {

std::string exit_text(const ProcessExit& exit) {
  if (!exit.failure.empty()) return exit.failure;
  if (exit.signal == 0) return "exit " + std::to_string(exit.status);
  const char* name = sigabbrev_np(exit.signal);
  return "killed by " +
         (name != nullptr ? "SIG" + std::string(name) : "signal " + std::to_string(exit.signal));
}

std::string timeout_text(Duration timeout) { return "took longer than " + human_duration(timeout); }

std::string running_text(const Call& call, int pid, Duration since) {
  std::string text(call.id);
  if (!call.key.empty()) text += "  key " + excerpt(call.key, 60);
  if (pid > 0) text += "  pid " + std::to_string(pid);
  return text + "  try " + std::to_string(call.attempt.number) + "  since " + human_duration(since);
}

std::string excerpt(std::string_view text, std::size_t most_bytes) {
  std::string line;
  for (const char letter : text.substr(0, most_bytes)) {
    const auto byte = static_cast<unsigned char>(letter);
    line += byte < 0x20 || byte == 0x7f ? ' ' : letter;
  }
  if (text.size() > most_bytes) {
    // Not in the middle of a character.
    std::size_t end = line.size();
    while (end > 0 && (static_cast<unsigned char>(line[end - 1]) & 0xc0) == 0x80) --end;
    if (end > 0 && static_cast<unsigned char>(line[end - 1]) >= 0xc0) line.resize(end - 1);
    line += "...";
  }
  return line;
}

void Tail::append(std::string_view text) {
  if (text.size() >= kBytes) {
    text_.assign(text.substr(text.size() - kBytes));
    return;
  }
  text_.append(text);
  if (text_.size() > 2 * kBytes) text_.erase(0, text_.size() - kBytes);
}

}  // namespace keyway::run
