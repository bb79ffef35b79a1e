#include "cli/nearest.h"

#include "base/suggest.h"

namespace keyway::cli {

std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& known) {
  std::vector<std::string_view> beginning;
  for (const std::string& candidate : known) {
    if (!word.empty() && candidate.starts_with(word)) beginning.emplace_back(candidate);
  }
  if (beginning.size() == 1) return std::string(beginning.front());
  const std::vector<std::string_view> all(known.begin(), known.end());
  const std::string_view near = suggest(word, all);
  if (near.empty()) return std::nullopt;
  return std::string(near);
}

}  // namespace keyway::cli
