#include "sources/file/line_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace keyway {

namespace {
constexpr std::size_t kBlockBytes = std::size_t{64} << 10;
}

class LineReader::Block {
 public:
  Block(std::size_t size, std::shared_ptr<BlockCount> count)
      : bytes_(std::make_unique_for_overwrite<char[]>(size)),
        size_(size),
        count_(std::move(count)) {
    count_->fetch_add(size, std::memory_order_relaxed);
  }
  ~Block() { count_->fetch_sub(size_, std::memory_order_relaxed); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  char* bytes() { return bytes_.get(); }
  std::size_t size() const { return size_; }

 private:
  const std::unique_ptr<char[]> bytes_;
  const std::size_t size_;
  const std::shared_ptr<BlockCount> count_;
};

LineReader::LineReader(Read read, Options options)
    : read_(std::move(read)),
      max_line_bytes_(options.max_line_bytes),
      count_(std::move(options.count)),
      position_(options.begin),
      number_(options.first_number) {}

LineReader::~LineReader() = default;

std::shared_ptr<const void> LineReader::block() const { return block_; }

Offset LineReader::end() const { return position_ + static_cast<Offset>(end_ - begin_); }

std::optional<Line> LineReader::next() {
  if (scanned_ == end_) return std::nullopt;
  const char* const bytes = block_->bytes();
  const void* const newline = std::memchr(bytes + scanned_, '\n', end_ - scanned_);
  if (newline == nullptr) {
    scanned_ = end_;
    return std::nullopt;
  }
  const auto at = static_cast<std::size_t>(static_cast<const char*>(newline) - bytes);
  const bool has_return = at > begin_ && bytes[at - 1] == '\r';
  return cut(has_return ? at - 1 : at, at + 1);
}

std::optional<Line> LineReader::rest() {
  if (begin_ == end_) return std::nullopt;
  return cut(end_, end_);
}

Line LineReader::cut(std::size_t end, std::size_t next) {
  const Offset offset = position_;
  position_ += static_cast<Offset>(next - begin_);
  const Line line{{block_->bytes() + begin_, end - begin_}, offset, position_, number_++};
  begin_ = scanned_ = next;
  return line;
}

void LineReader::make_room() {
  const std::size_t begun = end_ - begin_;
  // A long block is let go as soon as its line is.
  const bool is_too_long = begun == 0 && block_ && block_->size() > kBlockBytes;
  if (block_ && end_ < block_->size() && !is_too_long) return;
  auto block = std::make_shared<Block>(std::max(kBlockBytes, 2 * begun), count_);
  if (begun > 0) std::memcpy(block->bytes(), block_->bytes() + begin_, begun);
  block_ = std::move(block);
  scanned_ -= begin_;
  begin_ = 0;
  end_ = begun;
}

Result<Got> LineReader::fill() {
  if (end_ - begin_ > max_line_bytes_) return Got::kTooLong;
  make_room();
  std::size_t bytes = 0;
  const Result<Got> got = read_(block_->bytes() + end_, block_->size() - end_, end(), bytes);
  if (got && *got == Got::kSome) end_ += bytes;
  return got;
}

}  // namespace keyway
