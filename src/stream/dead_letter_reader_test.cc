#include "stream/dead_letter_reader.h"

#include <random>

#include <gtest/gtest.h>

#include "stream/dead_letter_text.h"
#include "support/temporary_folder.h"

namespace keyway {
namespace {

using Next = DeadLetterReader::Next;

std::string line_of(std::string_view id, std::string_view value) {
  const Record record{.key = "k", .value = value};
  std::string line;
  append_dead_letter(line, {.record = &record, .source = "s", .id = id, .attempts = 1});
  return line;
}

Next next_of(Result<DeadLetterReader>& reader) {
  const Result<Next> next = reader->next();
  EXPECT_TRUE(next);
  return next ? *next : Next::kEnd;
}

TEST(DeadLetterReader, AFileThatIsNotThereIsEmpty) {
  auto reader = DeadLetterReader::open("/nowhere/dead.jsonl");
  ASSERT_TRUE(reader);
  EXPECT_EQ(next_of(reader), Next::kEnd);
}

TEST(DeadLetterReader, AFolderIsAnError) {
  TemporaryFolder folder;
  auto reader = DeadLetterReader::open(folder.path());
  ASSERT_TRUE(!reader || !reader->next());
}

TEST(DeadLetterReader, SaysWhereEachLetterStands) {
  TemporaryFolder folder;
  const std::string first = line_of("1", "x");
  const std::string second = line_of("2", "[2]");
  auto reader = DeadLetterReader::open(folder.write("dead.jsonl", first + second));
  EXPECT_EQ(next_of(reader), Next::kLetter);
  EXPECT_EQ(reader->letter().id, "1");
  EXPECT_EQ(reader->begin(), 0);
  EXPECT_EQ(reader->end(), static_cast<Offset>(first.size()));
  EXPECT_EQ(next_of(reader), Next::kLetter);
  EXPECT_EQ(reader->line(), second.substr(0, second.size() - 1));
  EXPECT_EQ(reader->number(), 2U);
  EXPECT_EQ(reader->begin(), static_cast<Offset>(first.size()));
  EXPECT_EQ(next_of(reader), Next::kEnd);
}

TEST(DeadLetterReader, ALineThatIsNoLetterHidesNoOther) {
  TemporaryFolder folder;
  const std::string good = line_of("1", "x");
  for (const std::string bad :
       {"", "nonsense", "{}", "[]", "{\"id\":7,\"record\":1}", "{\"id\":\"1\"}",
        "{\"id\":\"1\",\"record\":}", "{\"id\":\"1\",\"record\":{]}",
        "{\"id\":\"1\",\"record_b64\":\"x\"}", "{\"id\":\"1\",\"record_b64\":{}}",
        "{\"id\":\"1\",\"attempts\":99999999999,\"record\":1}",
        "{\"id\":\"1\",\"first\":\"yesterday\",\"record\":1}",
        "{\"id\":\"1\",\"source\":[],\"record\":1}", "{\"id\":\"1\",\"record\":1} {}"}) {
    auto reader = DeadLetterReader::open(folder.write("dead.jsonl", good + bad + "\n" + good));
    EXPECT_EQ(next_of(reader), Next::kLetter);
    EXPECT_EQ(next_of(reader), Next::kDamaged) << bad;
    EXPECT_EQ(reader->line(), bad);
    EXPECT_EQ(reader->number(), 2U);
    EXPECT_EQ(next_of(reader), Next::kLetter);
    EXPECT_EQ(next_of(reader), Next::kEnd);
  }
}

TEST(DeadLetterReader, ATornLastLineIsToldAsSuch) {
  TemporaryFolder folder;
  const std::string good = line_of("1", "x");
  for (std::size_t cut = 1; cut + 1 < good.size(); ++cut) {
    auto reader = DeadLetterReader::open(folder.write("dead.jsonl", good + good.substr(0, cut)));
    EXPECT_EQ(next_of(reader), Next::kLetter);
    EXPECT_EQ(next_of(reader), Next::kTorn) << cut;
    EXPECT_EQ(next_of(reader), Next::kEnd);
  }
  auto reader = DeadLetterReader::open(folder.write("dead.jsonl", good.substr(0, good.size() - 1)));
  EXPECT_EQ(next_of(reader), Next::kLetter);
  EXPECT_EQ(next_of(reader), Next::kEnd);
}

TEST(DeadLetterReader, FieldsMayComeInAnyOrderAndWithOthers) {
  const auto letter = parse_dead_letter(
      R"({ "record" : { "a" : 1 } , "new":{"x":[1]}, "id":"f:1","exit":null, "source":)"
      R"({"offset":5,"topic":"t","partition":1} })");
  ASSERT_TRUE(letter);
  EXPECT_EQ(letter->record, R"({ "a" : 1 })");
  EXPECT_EQ(letter->id, "f:1");
  EXPECT_EQ(letter->offset, 5);
  EXPECT_EQ(letter->partition, 1);
  EXPECT_FALSE(letter->key);
  EXPECT_FALSE(letter->exit);
  EXPECT_EQ(parse_dead_letter(R"({"id":"1","record": 17 })")->record, "17");
}

TEST(DeadLetterReader, AnyRecordAndKeyComeBackByteByByte) {
  const auto seed = static_cast<unsigned>(::testing::UnitTest::GetInstance()->random_seed());
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  constexpr std::string_view kParts[] = {
      "{",    "}",    "[",  "]",       "\"",   ":",    ",", "1",  " ",   "\n",        "\\",
      "\\u0", "null", "\t", "\"a\":1", "\xc3", "\xa4", "x", "\r", "0.5", "{\"a\":1}", "true"};
  for (int round = 0; round < 20'000; ++round) {
    std::string value;
    for (unsigned parts = random() % 6; parts > 0; --parts)
      value += kParts[random() % std::size(kParts)];
    const Record record{.key = value, .value = value};
    std::string line;
    append_dead_letter(line, {.record = &record, .source = "s", .id = "1"});
    ASSERT_EQ(line.find('\n'), line.size() - 1);
    const auto letter = parse_dead_letter(std::string_view(line).substr(0, line.size() - 1));
    ASSERT_TRUE(letter) << line;
    ASSERT_EQ(letter->record, value) << line;
    ASSERT_EQ(letter->key, value) << line;
  }
}

}  // namespace
}  // namespace keyway
