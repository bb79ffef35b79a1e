// What a command line is for each record: argv with placeholders in it.
//
//   {}        the record          {seq}      its number, from 1     {attempt}  which one it is
//   {key}     its key             {slot}     which of the places    {.a.b}     what a JSON record
//   {group}   its group                      of --jobs it has                  has there
//   {id}      its id              {{         a brace
//
// Guarantees:
//   (1) A word stays one word whatever its values are: nothing is parsed again.
//   (2) For a shell, all words joined by spaces are one text, and each value in it one word in single quotes.
//       Where that would not hold the text is refused: a placeholder in quotes or behind a backslash, and with
//       placeholders, here-documents and $'...'.
//
// Thread safety: constant after construction.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "handlers/handler.h"
#include "keyway/error.h"
#include "keyway/json_path.h"

namespace keyway::run {

class CommandTemplate {
 public:
  // kInvalidArgument: there is nothing to run, or a placeholder that does not exist or cannot be where it is.
  static Result<CommandTemplate> parse(const std::vector<std::string>& argv, bool shell);

  // An error is the record's: it has no value there, or one that no argument can have.
  Result<std::vector<std::string>> fill(const Call& call) const;

  // Every record runs the same program.
  bool has_fixed_program() const;

 private:
  enum class Kind { kText, kRecord, kKey, kGroup, kId, kSeq, kSlot, kAttempt, kPath };
  struct Part {
    Kind kind = Kind::kText;
    std::string text;  // kText; else as it was written
    std::optional<JsonPath> path;
  };
  using Word = std::vector<Part>;

  static Result<Word> parse_word(std::string_view text);
  static Result<Part> parse_placeholder(std::string_view written);
  static Result<void> check_quotes(const Word& text);
  static Result<std::string> value_of(const Part& part, const Call& call);

  bool shell_ = false;
  std::vector<Word> words_;
};

}  // namespace keyway::run
