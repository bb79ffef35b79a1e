// What a command may know of the world it was called from: where it writes, whether somebody looks,
// the environment, the current folder. Tests bring their own.
//
// Thread safety: out() and err() write in one piece each, from any thread; the rest is constant.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "keyway/error.h"

namespace keyway::cli {

enum class ColorMode { kAuto, kAlways, kNever };

struct Console {
  std::function<void(std::string_view)> out;
  std::function<void(std::string_view)> err;
  bool out_is_terminal = false;
  bool err_is_terminal = false;
  // Of the terminal, asked anew each time since it may be resized; nothing if there is none.
  std::function<std::optional<int>()> columns = [] { return std::nullopt; };
  std::function<std::optional<std::string>(const std::string&)> environment =
      [](const std::string&) { return std::nullopt; };
  std::filesystem::path folder;
  // What the last failed write to standard output said; empty: none failed.
  std::function<std::string()> out_failure = [] { return std::string(); };

  // Columns for running text: those of the terminal, 80 if there is none; between 40 and 120.
  int text_columns() const;
  bool is_dumb() const;  // TERM=dumb, or a terminal without a type
};

// That of this process.
Console process_console();

// --color decides; else NO_COLOR, CLICOLOR_FORCE, TERM=dumb in this order; else whether it is a
// terminal.
bool wants_color(const Console& console, ColorMode mode, bool is_terminal);

// Marks text for a terminal, or leaves it as it is.
struct Style {
  bool on = false;

  std::string bold(std::string_view text) const { return mark("1", text); }
  std::string dim(std::string_view text) const { return mark("2", text); }
  std::string red(std::string_view text) const { return mark("31", text); }
  std::string green(std::string_view text) const { return mark("32", text); }
  std::string yellow(std::string_view text) const { return mark("33", text); }

 private:
  std::string mark(std::string_view code, std::string_view text) const;
};

// Of an error: what is wrong in its first line, the next step in the second.
std::string with_next_step(std::string what, std::string_view next_step);
Error usage_error(std::string what, std::string_view next_step);

// "keyway: what: where" and, indented, "try: next step".
void print_error(const Console& console, const Error& error, ColorMode color = ColorMode::kAuto);
// "keyway: text": neither an error nor a warning.
void print_note(const Console& console, std::string_view text);
void print_warning(const Console& console, const std::string& message,
                   ColorMode color = ColorMode::kAuto);

}  // namespace keyway::cli
