#include "cli/dead_text.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/time_text.h"
#include "cli/human_text.h"

namespace keyway::cli {
namespace {

constexpr int kWidestName = 40;
constexpr int kWidestWords = 80;

std::string time_text(std::chrono::system_clock::time_point time) {
  std::string text;
  append_time(text, time);
  return text;
}

// With the last thing that the handler said.
std::string why(const StoredLetter& letter) {
  std::string_view said = letter.stderr_tail;
  while (said.ends_with('\n')) said.remove_suffix(1);
  said = said.substr(said.rfind('\n') + 1);
  std::string text = printable(letter.cause);
  if (!said.empty()) text += ": " + shorten(printable(said), kWidestWords);
  return text;
}

std::string or_none(const std::optional<std::string>& text) {
  return text ? printable(*text) : "-";
}

}  // namespace

std::string DeadTable::add(const StoredLetter& letter) {
  Row row = {shorten(printable(letter.id), kWidestName), shorten(or_none(letter.key), kWidestName),
             grouped(static_cast<std::uint64_t>(letter.attempts)), time_text(letter.last),
             why(letter)};
  if (!widths_.empty()) return text(row);
  first_.push_back(std::move(row));
  return first_.size() < kMeasured ? "" : finish();
}

std::string DeadTable::finish() {
  if (first_.empty()) return "";
  std::vector<Row> rows = std::exchange(first_, {});
  rows.insert(rows.begin(), {"ID", "KEY", "TRIES", "DIED", "CAUSE"});
  widths_.assign(rows.front().size(), 0);
  for (const Row& row : rows) {
    for (std::size_t at = 0; at < row.size(); ++at) {
      widths_[at] = std::max(widths_[at], display_width(row[at]));
    }
  }
  std::string table = style_.bold(text(rows.front()));
  for (std::size_t at = 1; at < rows.size(); ++at) table += text(rows[at]);
  return table;
}

std::string DeadTable::text(const Row& row) const {
  std::string line;
  for (std::size_t at = 0; at + 1 < row.size(); ++at) {
    const auto missing =
        static_cast<std::size_t>(std::max(0, widths_[at] - display_width(row[at])));
    const bool is_number = at == 2;
    line += is_number ? std::string(missing, ' ') + row[at] : row[at] + std::string(missing, ' ');
    line += "  ";
  }
  line += row.back();
  return (columns_ > 0 ? shorten(line, columns_) : line) + "\n";
}

std::string dead_letter_text(const StoredLetter& letter, const Style& style, bool is_terminal) {
  std::string text;
  const auto add = [&](std::string_view name, const std::string& value) {
    text += style.bold(fmt::format("{:<10}", name)) + value + "\n";
  };
  add("id", printable(letter.id));
  add("key", or_none(letter.key));
  if (letter.group != letter.key) add("group", or_none(letter.group));
  add("tries", std::to_string(letter.attempts));
  add("first", time_text(letter.first));
  add("last", time_text(letter.last));
  add("cause", printable(letter.cause));
  if (letter.exit) add("exit", std::to_string(*letter.exit));
  add("source", fmt::format("{}, partition {}, offset {}", printable(letter.source),
                            letter.partition, letter.offset));
  if (!letter.stderr_tail.empty()) {
    add("stderr", "");
    std::string_view rest = letter.stderr_tail;
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      text += "  " + printable(rest.substr(0, end)) + "\n";
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  add("record", "");
  // Bytes that a terminal would obey are for pipes alone.
  text += is_terminal ? printable(letter.record) : letter.record;
  return text + "\n";
}

}  // namespace keyway::cli
