// Dead letters as people read them.
#pragma once

#include <string>
#include <vector>

#include "cli/console.h"
#include "stream/dead_letter_reader.h"

namespace keyway::cli {

// A table, in which each letter is a line: id, key, tries, when it died, cause. Rows can be added without end; the
// columns are as wide as the first ones need.
class DeadTable {
 public:
  // `columns`: of the terminal; 0: lines may be long.
  DeadTable(Style style, int columns) : style_(style), columns_(columns) {}

  // What is to be printed now.
  std::string add(const StoredLetter& letter);
  std::string finish();

 private:
  using Row = std::vector<std::string>;
  std::string text(const Row& row) const;

  static constexpr std::size_t kMeasured = 500;

  const Style style_;
  const int columns_;
  std::vector<Row> first_;
  std::vector<int> widths_;
};

// Everything about one, the record last.
std::string dead_letter_text(const StoredLetter& letter, const Style& style, bool is_terminal);

}  // namespace keyway::cli
