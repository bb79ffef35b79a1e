#include "base/suggest.h"

#include <algorithm>
#include <vector>

namespace keyway {

namespace {

// Nobody means a word this long by another; it also bounds the work.
constexpr std::size_t kLongest = 64;

char lower(char letter) {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

}  // namespace

// Damerau-Levenshtein in its "optimal string alignment" form, with three rows of the table.
int edit_distance(std::string_view left, std::string_view right) {
  std::vector<int> before_last(right.size() + 1);
  std::vector<int> last(right.size() + 1);
  std::vector<int> row(right.size() + 1);
  for (std::size_t j = 0; j <= right.size(); ++j) row[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= left.size(); ++i) {
    std::swap(before_last, last);
    std::swap(last, row);
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= right.size(); ++j) {
      const bool same = lower(left[i - 1]) == lower(right[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && lower(left[i - 1]) == lower(right[j - 2]) &&
                           lower(left[i - 2]) == lower(right[j - 1]);
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row[right.size()];
}

std::string_view suggest(std::string_view word, std::span<const std::string_view> known) {
  if (word.empty() || word.size() > kLongest) return {};
  int nearest = static_cast<int>((word.size() + 2) / 3) + 1;
  std::string_view found;
  for (const std::string_view candidate : known) {
    if (candidate.size() > kLongest) continue;
    const int distance = edit_distance(word, candidate);
    // A word of which nothing is left is another word.
    if (distance < nearest && distance < static_cast<int>(candidate.size())) {
      nearest = distance;
      found = candidate;
    }
  }
  return found;
}

}  // namespace keyway
