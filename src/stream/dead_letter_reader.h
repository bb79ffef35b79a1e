// Reads a file of dead letters, line by line.
//
//   Result<DeadLetterReader> reader = DeadLetterReader::open("dead.jsonl");
//   while (true) {
//     const Result<DeadLetterReader::Next> next = reader->next();
//     if (!next) return next.error();
//     if (*next == DeadLetterReader::Next::kEnd) break;
//     if (*next == DeadLetterReader::Next::kLetter) use(reader->letter());
//   }
//
// Guarantees:
//   (1) A letter's record, key and group are byte by byte what they were.
//   (2) A line that is no letter is told as such, and hides no other.
//   (3) Memory: a few times the longest line.
//
// Thread safety: as std::vector.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "keyway/dead_letters.h"
#include "keyway/error.h"
#include "keyway/record.h"

namespace keyway {

struct StoredLetter {
  std::string id;
  std::optional<std::string> unique_id;
  std::optional<std::string> key;
  std::optional<std::string> group;
  int attempts = 0;
  std::chrono::system_clock::time_point first{};
  std::chrono::system_clock::time_point last{};
  std::string cause;
  std::optional<int> exit;
  std::string stderr_tail;
  std::string source;
  PartitionId partition = 0;
  Offset offset = 0;
  std::string record;
};

// Nothing: it is no dead letter.
std::optional<StoredLetter> parse_dead_letter(std::string_view line);

class DeadLetterReader {
 public:
  // A file that is not there is an empty one.
  static Result<DeadLetterReader> open(const std::string& path);

  enum class Next {
    kLetter,
    kDamaged,  // a line that is no letter
    kTorn,     // the last line, which has no newline and is no letter: what a crash left of one
    kEnd,
  };
  Result<Next> next();
  // The next line is the one that begins at `begin`. number() counts on from where it was.
  Result<void> seek(Offset begin);

  // Of kLetter, until the next call of next().
  StoredLetter& letter() { return letter_; }
  // Of all but kEnd: without the newline, which line it is (from 1), and where it begins and ends in the file.
  std::string_view line() const { return {buffer_.text, length_}; }
  std::uint64_t number() const { return number_; }
  Offset begin() const { return begin_; }
  Offset end() const { return end_; }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  struct Buffer {  // as getline() wants it
    Buffer() = default;
    Buffer(Buffer&& other) noexcept;
    Buffer& operator=(Buffer&& other) noexcept;
    ~Buffer();
    char* text = nullptr;
    std::size_t capacity = 0;
  };

  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  Buffer buffer_;
  std::size_t length_ = 0;
  std::uint64_t number_ = 0;
  Offset begin_ = 0;
  Offset end_ = 0;
  StoredLetter letter_;
};

}  // namespace keyway
