// The letters of a file, for the tools that look at them, replay and remove them.
//
//   Result<LetterFile> file = LetterFile::open("orders.jsonl.keyway/dead.jsonl");
//   file->for_each([](std::size_t which, const StoredLetter& letter, std::string_view line) { ...; return true; });
//   file->remove({3, 4});
//
// Lines with the same id and record are one letter: a record that was handled again after a crash, or replayed, and died
// again. It stands where its first line stands, so that a key's letters stay in order, and says what its last line says.
// Letters are numbered from 0 in this order.
//
// Memory: some 60 bytes for each letter, and the longest line.
//
// Thread safety: as std::vector.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "keyway/error.h"
#include "stream/dead_letter_reader.h"

namespace keyway::dead {

class LetterFile {
 public:
  // A file that is not there is an empty one.
  static Result<LetterFile> open(const std::string& path);

  const std::string& path() const { return path_; }
  std::size_t size() const { return letters_.size(); }
  // Lines that are no letters, from 1. They are left as they are.
  const std::vector<std::uint64_t>& damaged() const { return damaged_; }
  // The last line is what a crash left of a letter, which the run will handle again.
  bool is_torn() const { return is_torn_; }

  // `line`: as it is in the file, without its newline. Until `visit` returns false.
  using Visit = std::function<bool(std::size_t which, StoredLetter& letter, std::string_view line)>;
  Result<void> for_each(const Visit& visit);

  // REQUIRES: which < size()
  Result<StoredLetter> read(std::size_t which);

  // Writes the others beside the file, and puts that in its place: all of `which` are gone or, on an error or after a
  // crash, none. What was appended meanwhile stays. Without any letter left the file goes. Numbers change: this object is
  // of no use any more. kConflict: another one has removed letters meanwhile.
  Result<void> remove(const std::set<std::size_t>& which);

 private:
  struct Line {
    Offset place = 0;  // where its first line begins
    Offset begin = 0;  // where the line begins that counts
  };
  LetterFile(std::string path, DeadLetterReader reader)
      : path_(std::move(path)), reader_(std::move(reader)) {}
  Result<void> read_lines();
  // Brings the reader to a line.
  Result<void> go_to(Offset begin);
  Result<void> remove_locked(const std::set<std::size_t>& which, unsigned mode);
  Result<void> write_others(std::FILE* to, const std::set<std::size_t>& which);

  std::string path_;
  std::uint64_t inode_ = 0;  // 0: there was no file
  DeadLetterReader reader_;
  std::vector<Line> letters_;
  std::vector<Line> others_;  // lines that are no letters
  std::vector<std::uint64_t> damaged_;
  bool is_torn_ = false;
};

}  // namespace keyway::dead
