#include "sources/file/line_reader.h"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/memory.h"

namespace keyway {
namespace {

// Gives out a text in pieces.
LineReader::Read pieces_of(const std::string& text, std::function<std::size_t()> next_size) {
  return [&text, next_size = std::move(next_size)](char* to, std::size_t most, Offset at,
                                                   std::size_t& bytes) -> Result<Got> {
    const auto from = static_cast<std::size_t>(at);
    if (from == text.size()) return Got::kEnd;
    bytes = std::min({most, next_size(), text.size() - from});
    if (bytes == 0) return Got::kNothing;
    std::memcpy(to, text.data() + from, bytes);
    return Got::kSome;
  };
}

struct Read {
  std::string text;
  Offset offset = 0;
  Offset end = 0;
  std::uint64_t number = 0;
  bool operator==(const Read&) const = default;
};

std::vector<Read> all_lines(LineReader& reader) {
  std::vector<Read> lines;
  std::vector<std::pair<std::string_view, std::shared_ptr<const void>>> kept;
  const auto add = [&](const Line& line) {
    lines.push_back({std::string(line.text), line.offset, line.end, line.number});
    kept.emplace_back(line.text, reader.block());
  };
  while (true) {
    while (const std::optional<Line> line = reader.next()) add(*line);
    if (*reader.fill() == Got::kEnd) break;
  }
  if (const std::optional<Line> line = reader.rest()) add(*line);
  for (std::size_t i = 0; i < lines.size(); ++i) EXPECT_EQ(kept[i].first, lines[i].text);
  return lines;
}

// Said once more, one byte after the other.
std::vector<Read> expected_lines(const std::string& text) {
  std::vector<Read> lines;
  Read line{.number = 1};
  for (std::size_t i = 0; i < text.size(); ++i) {
    line.end = static_cast<Offset>(i + 1);
    if (text[i] != '\n') {
      line.text += text[i];
      continue;
    }
    if (line.text.ends_with('\r')) line.text.pop_back();
    const Offset next = line.end;
    const std::uint64_t number = line.number + 1;
    lines.push_back(std::exchange(line, {.offset = next, .number = number}));
  }
  if (line.offset < static_cast<Offset>(text.size())) lines.push_back(line);
  return lines;
}

TEST(LineReader, LinesHaveTheirTextPlaceAndNumber) {
  const std::string text = "one\ntwo\r\n\n\r\nlast";
  LineReader reader(pieces_of(text, [] { return 1000; }), {});
  EXPECT_EQ(all_lines(reader), (std::vector<Read>{{"one", 0, 4, 1},
                                                  {"two", 4, 9, 2},
                                                  {"", 9, 10, 3},
                                                  {"", 10, 12, 4},
                                                  {"last", 12, 16, 5}}));
  EXPECT_EQ(reader.position(), 16);
  EXPECT_EQ(reader.number(), 6U);
}

TEST(LineReader, BeginsInTheMiddle) {
  const std::string text = "one\ntwo\nthree\n";
  LineReader reader(pieces_of(text, [] { return 1000; }), {.begin = 4, .first_number = 2});
  EXPECT_EQ(all_lines(reader), (std::vector<Read>{{"two", 4, 8, 2}, {"three", 8, 14, 3}}));
}

TEST(LineReader, LinesAreTheSameHoweverTheyAreRead) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    std::string text;
    const std::size_t size = random() % 400'000;
    const std::size_t longest = 1 + random() % (random() % 5 == 0 ? 200'000 : 500);
    while (text.size() < size) {
      text.append(random() % longest, static_cast<char>('a' + random() % 20));
      if (random() % 4 == 0) text += '\r';
      text += '\n';
    }
    if (random() % 2 == 0) text += "end";
    const std::size_t piece = 1 + random() % 100'000;
    LineReader reader(pieces_of(text, [&] { return random() % piece; }), {});
    ASSERT_EQ(all_lines(reader), expected_lines(text)) << "seed " << seed;
  }
}

TEST(LineReader, ALineOf100MegabytesIsReadInLinearTime) {
  const std::string text = std::string(100'000'000, 'x') + "\nshort\n";
  LineReader reader(pieces_of(text, [] { return std::size_t{64} << 10; }), {});
  const std::clock_t begin = std::clock();  // of the processor: others may keep it busy
  std::size_t longest = 0;
  std::size_t lines = 0;
  while (true) {
    while (const std::optional<Line> line = reader.next()) {
      longest = std::max(longest, line->text.size());
      ++lines;
    }
    if (*reader.fill() == Got::kEnd) break;
  }
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  EXPECT_EQ(longest, 100'000'000U);
  EXPECT_EQ(lines, 2U);
  // To look again at what was looked at before would take half a minute.
  EXPECT_LT(seconds, kSanitized ? 20 : 2);
  EXPECT_LE(reader.alive_bytes(), 64U << 10) << "the long block is gone with its line";
}

TEST(LineReader, ALineThatIsTooLongIsNotReadToItsEnd) {
  const std::string text = "ok\n" + std::string(1'000'000, 'x');
  LineReader reader(pieces_of(text, [] { return 5000; }), {.max_line_bytes = 100'000});
  Result<Got> got = Got::kSome;
  std::size_t lines = 0;
  while (*got == Got::kSome) {
    while (reader.next()) ++lines;
    got = reader.fill();
  }
  EXPECT_EQ(*got, Got::kTooLong);
  EXPECT_EQ(lines, 1U);
  EXPECT_LT(reader.end(), 120'000);
}

TEST(LineReader, ABlockGoesWithTheLastWhoKeepsIt) {
  const std::string text = std::string(1000, 'a') + "\n";
  auto count = std::make_shared<BlockCount>(0);
  std::shared_ptr<const void> kept;
  {
    LineReader reader(pieces_of(text, [] { return 5000; }), {.count = count});
    ASSERT_TRUE(reader.fill().ok());
    ASSERT_TRUE(reader.next());
    kept = reader.block();
  }
  EXPECT_GT(*count, 1000U);
  kept.reset();
  EXPECT_EQ(*count, 0U);
}

// A file that grows slowly: its lines do not need a block each.
TEST(LineReader, WhatComesLaterGoesToTheSameBlock) {
  std::string text;
  LineReader reader(pieces_of(text, [] { return 5000; }), {});
  std::vector<std::shared_ptr<const void>> kept;
  for (int i = 0; i < 1000; ++i) {
    text += "a line\n";
    ASSERT_EQ(*reader.fill(), Got::kSome);
    ASSERT_EQ(reader.next()->text, "a line");
    kept.push_back(reader.block());
  }
  EXPECT_LE(reader.alive_bytes(), 64U << 10);
}

}  // namespace
}  // namespace keyway
