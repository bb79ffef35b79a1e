// Which letters are meant.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dead/letter_file.h"
#include "keyway/error.h"
#include "stream/dead_letter_reader.h"

namespace keyway::dead {

struct Selection {
  std::set<std::string, std::less<>> ids;  // empty: any
  std::optional<std::string> key;
  std::string cause;  // is part of theirs

  bool has(const StoredLetter& letter) const {
    return (ids.empty() || ids.contains(letter.id)) && (!key || letter.key == key) &&
           letter.cause.find(cause) != std::string::npos;
  }
};

// The numbers of the letters that are meant, in order. An id that no letter has is kInvalidArgument.
Result<std::vector<std::size_t>> find(LetterFile& file, const Selection& selection);

}  // namespace keyway::dead
