#include "dead/selection.h"

namespace keyway::dead {

Result<std::vector<std::size_t>> find(LetterFile& file, const Selection& selection) {
  std::vector<std::size_t> found;
  auto unknown = selection.ids;
  const Result<void> read =
      file.for_each([&](std::size_t which, const StoredLetter& letter, std::string_view) {
        if (const auto known = unknown.find(letter.id); known != unknown.end())
          unknown.erase(known);
        if (selection.has(letter)) found.push_back(which);
        return true;
      });
  if (!read) return read.error();
  if (!unknown.empty()) {
    return Error{ErrorCode::kInvalidArgument, file.path() + " has no dead letter " +
                                                  *unknown.begin() + "\n  try: keyway dead list " +
                                                  file.path()};
  }
  return found;
}

}  // namespace keyway::dead
