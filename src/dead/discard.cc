#include "dead/discard.h"

#include <set>

#include "dead/letter_file.h"
#include "jobs/state_folder.h"

namespace keyway::dead {

Result<Discarded> discard(const std::string& folder, const std::string& file,
                          const Selection& selection) {
  const Result<jobs::StateFolder> taken = jobs::StateFolder::take(folder);
  if (!taken) return taken.error();
  Result<LetterFile> letters = LetterFile::open(file);
  if (!letters) return letters.error();
  std::set<std::size_t> gone;
  auto unknown = selection.ids;
  const Result<void> read =
      letters->for_each([&](std::size_t which, const StoredLetter& letter, std::string_view) {
        if (const auto known = unknown.find(letter.id); known != unknown.end())
          unknown.erase(known);
        if (selection.has(letter)) gone.insert(which);
        return true;
      });
  if (!read) return read.error();
  const std::size_t left = letters->size() - gone.size();
  if (const Result<void> removed = letters->remove(gone); !removed) return removed.error();
  return Discarded{gone.size(), left, {unknown.begin(), unknown.end()}};
}

}  // namespace keyway::dead
