// For tests: a state folder with letters.
#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "dead/letter_file.h"
#include "stream/dead_letter_text.h"
#include "support/temporary_folder.h"

namespace keyway::dead {

struct TestLetter {
  std::string id;
  std::string key = "k";
  std::string record = "x";
  int attempts = 1;
  std::string cause = "exit 1";
};

inline std::string line_of(const TestLetter& letter) {
  const Record record{.key = letter.key, .value = letter.record};
  std::string line;
  append_dead_letter(line, {.record = &record,
                            .source = "orders.jsonl",
                            .id = letter.id,
                            .attempts = letter.attempts,
                            .cause = letter.cause});
  return line;
}

struct LetterFixture : ::testing::Test {
  std::string write(const std::vector<TestLetter>& letters) const {
    std::string text;
    for (const TestLetter& letter : letters) text += line_of(letter);
    return folder.write("dead.jsonl", text);
  }
  // "id/attempts", in order.
  std::vector<std::string> listed() const {
    std::vector<std::string> found;
    Result<LetterFile> letters = LetterFile::open(file);
    EXPECT_TRUE(letters);
    EXPECT_TRUE(letters->for_each([&](std::size_t which, const StoredLetter& letter, auto) {
      EXPECT_EQ(which, found.size());
      found.push_back(letter.id + "/" + std::to_string(letter.attempts));
      return true;
    }));
    return found;
  }

  TemporaryFolder folder;
  const std::string file = folder.file("dead.jsonl");
};

using Listed = std::vector<std::string>;

}  // namespace keyway::dead
