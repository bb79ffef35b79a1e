#include "dead/discard.h"

#include <optional>
#include <utility>
#include <vector>

#include "dead/letter_file.h"
#include "jobs/state_folder.h"

namespace keyway::dead {

Result<Discarded> discard(const std::string& folder, const std::string& file,
                          const Selection& selection) {
  std::optional<jobs::StateFolder> held;
  if (!folder.empty()) {
    Result<jobs::StateFolder> taken = jobs::StateFolder::take(folder);
    if (!taken) return taken.error();
    held.emplace(std::move(*taken));
  }
  Result<LetterFile> letters = LetterFile::open(file);
  if (!letters) return letters.error();
  const Result<std::vector<std::size_t>> found = find(*letters, selection);
  if (!found) return found.error();
  if (const Result<void> gone = letters->remove({found->begin(), found->end()}); !gone) {
    return gone.error();
  }
  return Discarded{found->size(), letters->size() - found->size()};
}

}  // namespace keyway::dead
