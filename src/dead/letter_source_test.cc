#include "dead/letter_source.h"

#include "dead/letter_fixture.h"

namespace keyway::dead {
namespace {

struct LetterSourceTest : LetterFixture {
  // All that is to be read.
  std::vector<Record> poll_all(LetterSource& source, std::size_t most = 100) {
    std::vector<Record> records;
    EXPECT_TRUE(source.open([] {}));
    while (true) {
      std::vector<Record> some;
      const Result<Polled> polled = source.poll(some, events, most);
      EXPECT_TRUE(polled);
      EXPECT_LE(some.size(), most);
      records.insert(records.end(), some.begin(), some.end());
      if (!polled || polled->state != Polled::kMore) return records;
    }
  }
  std::vector<PartitionEvent> events;
};

TEST_F(LetterSourceTest, GivesTheWantedLettersInOrderWithTheKeysAndIdsTheyHad) {
  write({{"f:3", "a", "{\"n\":3}"}, {"f:1", "b"}, {"f:9", "a", "nine"}});
  Result<LetterFile> letters = LetterFile::open(file);
  LetterSource source(*letters, {0, 2});
  const std::vector<Record> records = poll_all(source, 1);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].kind, PartitionEvent::kAssigned);
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].value, "{\"n\":3}");
  EXPECT_EQ(records[0].key, "a");
  EXPECT_EQ(source.id_of(records[0]), "f:3");
  EXPECT_EQ(records[1].value, "nine");
  EXPECT_EQ(source.id_of(records[1]), "f:9");
  EXPECT_EQ(source.place_of(records[1]), file + ": f:9");
  EXPECT_NE(source.unique_id_of(records[0]), source.unique_id_of(records[1]));
}

TEST_F(LetterSourceTest, TheUniqueIdIsTheOneThatTheRecordHad) {
  const Record record{.key = "k", .value = "x"};
  std::string line;
  append_dead_letter(line, {.record = &record, .source = "s", .id = "1", .unique_id = "00ff"});
  folder.write("dead.jsonl", line);
  Result<LetterFile> letters = LetterFile::open(file);
  LetterSource source(*letters, {0});
  EXPECT_EQ(source.unique_id_of(poll_all(source).front()), "00ff");
}

TEST_F(LetterSourceTest, KnowsWhichOfTheWantedAreSettled) {
  write({{"f:1"}, {"f:2"}, {"f:3"}, {"f:4"}, {"f:5"}});
  Result<LetterFile> letters = LetterFile::open(file);
  LetterSource source(*letters, {1, 2, 4});
  const std::vector<Record> records = poll_all(source);
  EXPECT_TRUE(source.settled().empty());
  const Progress progress{.watermark = 2, .done_above = {{4, 5}}};
  ASSERT_TRUE(source.commit({&progress, 1}));
  EXPECT_EQ(source.settled(), (std::vector<std::size_t>{1, 4}));
  EXPECT_EQ(source.id_of(records[1]), "f:3");  // in flight still
}

TEST_F(LetterSourceTest, APausedPartitionGivesNothing) {
  write({{"f:1"}, {"f:2"}});
  Result<LetterFile> letters = LetterFile::open(file);
  LetterSource source(*letters, {0, 1});
  source.pause(0);
  EXPECT_TRUE(poll_all(source).empty());
  source.resume(0);
  EXPECT_EQ(poll_all(source).size(), 2U);
}

}  // namespace
}  // namespace keyway::dead
