// Cuts what is read of a file into lines, which share the blocks that it was read into.
//
//   LineReader reader(read, {.begin = 0});
//   while (...) {
//     while (std::optional<Line> line = reader.next()) use(*line, reader.block());
//     Result<Got> got = reader.fill();
//   }
//
// A line that is not whole at the end of its block goes to the beginning of the next one, which is at least twice as
// long as it: so each byte is copied a few times at most, however long the line, and looked at once.
//
// Thread safety: one thread. Blocks may be let go by any.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "keyway/error.h"
#include "keyway/record.h"

namespace keyway {

struct Line {
  std::string_view text;  // without "\n" or "\r\n"
  Offset offset = 0;
  Offset end = 0;
  std::uint64_t number = 0;
};

// What an attempt to read brought.
enum class Got {
  kSome,
  kNothing,  // not now
  kEnd,      // of a file, perhaps only for now
  kTooLong,  // the line that is begun has more bytes than a line may have
};

// How many bytes of blocks are alive, of all readers that share it.
using BlockCount = std::atomic<std::size_t>;

class LineReader {
 public:
  // Reads up to `most` bytes from the position `at` on; kSome: how many is in `bytes`.
  using Read =
      std::function<Result<Got>(char* to, std::size_t most, Offset at, std::size_t& bytes)>;

  struct Options {
    Offset begin = 0;
    std::uint64_t first_number = 1;
    std::size_t max_line_bytes = std::size_t{256} << 20;
    std::shared_ptr<BlockCount> count = std::make_shared<BlockCount>(0);
  };
  LineReader(Read read, Options options);
  ~LineReader();

  // The next whole line of what was read.
  std::optional<Line> next();
  // What is left, as a line: if nothing comes any more, and there is something.
  std::optional<Line> rest();
  // The one that the lines since the last fill() are in.
  std::shared_ptr<const void> block() const;
  std::size_t alive_bytes() const { return count_->load(std::memory_order_relaxed); }

  // Reads once.
  Result<Got> fill();

  Offset position() const { return position_; }     // where the next line begins
  Offset end() const;                               // how far was read
  std::uint64_t number() const { return number_; }  // of the next line

 private:
  class Block;

  void make_room();
  Line cut(std::size_t end, std::size_t next);

  const Read read_;
  const std::size_t max_line_bytes_;
  const std::shared_ptr<BlockCount> count_;
  std::shared_ptr<Block> block_;
  std::size_t begin_ = 0;    // of the next line, in the block
  std::size_t scanned_ = 0;  // no newline from there up to here
  std::size_t end_ = 0;      // of what was read
  Offset position_;
  std::uint64_t number_;
};

}  // namespace keyway
