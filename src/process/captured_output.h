// What one stream of a process wrote: in memory up to a bound, beyond it in a temporary file
// without a name.
//
//   CapturedOutput output;
//   output.append(text);                                 // any number of times
//   output.read(offset, buffer);                         // and out again, piece by piece
//
// Guarantees:
//   (1) At most `memory_bytes` are in memory, whatever is appended.
//   (2) The file is in $TMPDIR (else /tmp), has no name, and is gone with this object or with the
//       program.
//   (3) append() does not fail. What finds no room is counted: the text ends there, with a line
//       that says how much is missing and why.
//
// Thread safety: one thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/file_descriptor.h"

namespace keyway {

class CapturedOutput {
 public:
  static constexpr std::size_t kMemoryBytes = 64 * 1024;

  explicit CapturedOutput(std::size_t memory_bytes = kMemoryBytes) : memory_bytes_(memory_bytes) {}

  void append(std::string_view text);
  // No more is coming: from now on the text includes the line about what is missing.
  void finish();

  std::uint64_t size() const { return memory_.size() + file_bytes_ + note_.size(); }
  bool empty() const { return size() == 0; }
  std::uint64_t missing_bytes() const { return missing_bytes_; }

  // The text from `offset` on, as much as `buffer` holds; shorter only at the end, or if the file
  // cannot be read.
  std::string_view read(std::uint64_t offset, std::span<char> buffer) const;

 private:
  void append_to_file(std::string_view text);
  void lose(std::size_t bytes, int why);

  // The text is these three, one after the other.
  std::string memory_;
  FileDescriptor file_;
  std::uint64_t file_bytes_ = 0;
  std::string note_;

  std::uint64_t missing_bytes_ = 0;
  int why_missing_ = 0;
  std::size_t memory_bytes_;
};

// An empty file without a name in $TMPDIR, else /tmp. Not open if that fails; errno says why.
FileDescriptor open_nameless_file();

}  // namespace keyway
