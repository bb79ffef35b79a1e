// The lines of a descriptor, in bounded memory; each is followed by kPadding readable bytes.
//
// Guarantees:
//   (1) next() never waits; fill() waits only if the descriptor has nothing to read.
//   (2) Memory: 256 KiB, or the longest line; one above 16 MiB is kTooLong.
//   (3) The last line needs no newline.
//
// Thread safety: as std::vector.
// Lifetime: the descriptor outlives it.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "keyway/error.h"

namespace keyway::jobs {

class LineReader {
 public:
  static constexpr std::size_t kLongestLine = std::size_t{16} << 20;
  static constexpr std::size_t kReadBytes = std::size_t{256} << 10;
  static constexpr std::size_t kPadding = 64;

  explicit LineReader(int descriptor) : descriptor_(descriptor) {}

  enum class Next { kLine, kNeedsInput, kEnd, kTooLong };
  // kLine: text() is valid until the next call of any method.
  Next next();
  std::string_view text() const { return text_; }

  // One read(2). An error if it fails.
  Result<void> fill();

 private:
  void make_room();

  const int descriptor_;
  std::unique_ptr<char[]> buffer_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;    // what was not given out yet
  std::size_t scanned_ = 0;  // up to here there is no newline
  std::size_t end_ = 0;
  bool at_end_ = false;
  std::string_view text_;
};

}  // namespace keyway::jobs
