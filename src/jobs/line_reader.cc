#include "jobs/line_reader.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <unistd.h>

#include "base/system_error.h"

namespace keyway::jobs {

LineReader::Next LineReader::next() {
  const char* found = static_cast<const char*>(
      end_ > scanned_ ? std::memchr(buffer_.get() + scanned_, '\n', end_ - scanned_) : nullptr);
  if (found == nullptr) {
    scanned_ = end_;
    if (end_ - begin_ > kLongestLine) return Next::kTooLong;
    if (!at_end_) return Next::kNeedsInput;
    if (begin_ == end_) return Next::kEnd;
    found = buffer_.get() + end_;  // the last line needs no newline
  }
  const char* start = buffer_.get() + begin_;
  text_ = {start, static_cast<std::size_t>(found - start)};
  begin_ = std::min(begin_ + text_.size() + 1, end_);
  scanned_ = begin_;
  return text_.size() > kLongestLine ? Next::kTooLong : Next::kLine;
}

void LineReader::make_room() {
  if (begin_ > 0) {
    std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    scanned_ -= begin_;
    begin_ = 0;
  }
  if (end_ < capacity_) return;
  const std::size_t larger = std::max(kReadBytes, capacity_ * 2);
  auto grown = std::make_unique<char[]>(larger + kPadding);
  if (end_ > 0) std::memcpy(grown.get(), buffer_.get(), end_);
  buffer_ = std::move(grown);
  capacity_ = larger;
}

Result<void> LineReader::fill() {
  make_room();
  const ssize_t got = read(descriptor_, buffer_.get() + end_, capacity_ - end_);
  if (got < 0) {
    if (errno == EINTR || errno == EAGAIN) return {};
    return system_error("cannot read", errno);
  }
  if (got == 0) at_end_ = true;
  end_ += static_cast<std::size_t>(got);
  return {};
}

}  // namespace keyway::jobs
