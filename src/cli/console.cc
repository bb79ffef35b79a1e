#include "cli/console.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include <sys/ioctl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/mutex.h"
#include "cli/human_text.h"

namespace keyway::cli {
namespace {

// Returns 0, or the errno of the write that failed.
int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

std::optional<int> terminal_columns() {
  for (const int fd : {STDERR_FILENO, STDOUT_FILENO}) {
    winsize size{};
    if (::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  }
  return std::nullopt;
}

void print_lines(const Console& console, std::string head, std::string_view message) {
  std::string text = std::move(head);
  while (true) {
    const std::size_t end = message.find('\n');
    text += printable(message.substr(0, end));
    text += '\n';
    if (end == std::string_view::npos) break;
    message.remove_prefix(end + 1);
    message.remove_prefix(std::min(message.find_first_not_of(' '), message.size()));
    text += "  ";
  }
  console.err(text);
}

}  // namespace

int Console::text_columns() const { return std::clamp(columns().value_or(80), 40, 120); }

bool Console::is_dumb() const {
  const std::string type = environment("TERM").value_or("");
  return type.empty() || type == "dumb";
}

Console process_console() {
  struct OutFailure {
    std::atomic<int> code{0};
  };
  auto failure = std::make_shared<OutFailure>();
  Console console;
  console.out = [failure](std::string_view text) {
    // A reader that has enough ("| head") is no failure: SIGPIPE, or this.
    const int code = write_all(STDOUT_FILENO, text);
    if (code != 0 && code != EPIPE) failure->code = code;
  };
  // Nobody is left to be told when standard error cannot be written.
  console.err = [](std::string_view text) { static_cast<void>(write_all(STDERR_FILENO, text)); };
  console.out_is_terminal = ::isatty(STDOUT_FILENO) == 1;
  console.err_is_terminal = ::isatty(STDERR_FILENO) == 1;
  console.columns = terminal_columns;
  console.environment = [](const std::string& name) -> std::optional<std::string> {
    const char* const value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return value;
  };
  std::error_code ignored;
  console.folder = std::filesystem::current_path(ignored);
  console.out_failure = [failure] {
    const int code = failure->code;
    return code == 0 ? std::string() : std::string(std::strerror(code));
  };
  return console;
}

bool wants_color(const Console& console, ColorMode mode, bool is_terminal) {
  if (mode != ColorMode::kAuto) return mode == ColorMode::kAlways;
  if (!console.environment("NO_COLOR").value_or("").empty()) return false;
  const std::string force = console.environment("CLICOLOR_FORCE").value_or("");
  if (!force.empty() && force != "0") return true;
  return is_terminal && !console.is_dumb();
}

std::string Style::mark(std::string_view code, std::string_view text) const {
  return on ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : std::string(text);
}

std::string with_next_step(std::string what, std::string_view next_step) {
  return fmt::format("{}\ntry: {}", what, next_step);
}

Error usage_error(std::string what, std::string_view next_step) {
  return {ErrorCode::kInvalidArgument, with_next_step(std::move(what), next_step)};
}

void print_error(const Console& console, const Error& error, ColorMode color) {
  const Style style{wants_color(console, color, console.err_is_terminal)};
  print_lines(console, style.red("keyway:") + " ", error.message);
}

void print_note(const Console& console, std::string_view text) {
  print_lines(console, "keyway: ", text);
}

void print_warning(const Console& console, const std::string& message, ColorMode color) {
  const Style style{wants_color(console, color, console.err_is_terminal)};
  print_lines(console, style.yellow("keyway: warning:") + " ", message);
}

}  // namespace keyway::cli
