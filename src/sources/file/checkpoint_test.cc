#include "sources/file/checkpoint.h"

#include <string>

#include <gtest/gtest.h>

#include "base/replace_file.h"
#include "support/temporary_folder.h"

namespace keyway {
namespace {

Checkpoint some_checkpoint() {
  return {
      .settings = "key=.user order=key",
      .files = {{.path = "a \"b\".jsonl",
                 .absolute = "/x/a \"b\".jsonl",
                 .prefix_bytes = 65536,
                 .prefix_hash = "0123456789abcdef",
                 .watermark = 1234567890123,
                 .line = 77,
                 .done_above = {{1234567890200, 1234567890300}, {1234567890400, 1234567890401}}},
                {.path = "-", .absolute = "-"}}};
}

TEST(Checkpoint, IsReadAsItWasWritten) {
  const Checkpoint checkpoint = some_checkpoint();
  EXPECT_EQ(*checkpoint_of(to_text(checkpoint)), checkpoint);
  EXPECT_EQ(*checkpoint_of(to_text({})), Checkpoint());
}

TEST(Checkpoint, IsTextThatAnybodyCanRead) {
  const std::string text = to_text(some_checkpoint());
  EXPECT_TRUE(text.starts_with(
      "{\"keyway\":\"checkpoint\",\"version\":1,\"settings\":\"key=.user order=key\"}\n"
      "{\"path\":\"a \\\"b\\\".jsonl\",\"absolute\":\"/x/a \\\"b\\\".jsonl\","
      "\"prefix_bytes\":65536,\"prefix_hash\":\"0123456789abcdef\",\"watermark\":1234567890123,"
      "\"line\":77,\"done_above\":[[1234567890200,1234567890300],[1234567890400,1234567890401]]}\n"
      "{\"path\":\"-\","))
      << text;
}

TEST(Checkpoint, AnyByteThatIsAnotherIsNoticed) {
  const std::string text = to_text(some_checkpoint());
  for (std::size_t at = 0; at < text.size(); ++at) {
    for (int change = 1; change < 256; ++change) {
      std::string damaged = text;
      damaged[at] = static_cast<char>(damaged[at] ^ change);
      const Result<Checkpoint> read = checkpoint_of(damaged);
      ASSERT_FALSE(read.ok()) << "byte " << at << " changed by " << change;
      ASSERT_EQ(read.error().code, ErrorCode::kConflict);
    }
  }
}

TEST(Checkpoint, OneThatIsCutOffOrHasMoreIsRefused) {
  const std::string text = to_text(some_checkpoint());
  for (std::size_t size = 0; size < text.size(); ++size) {
    ASSERT_FALSE(checkpoint_of(text.substr(0, size)).ok()) << size;
    ASSERT_FALSE(checkpoint_of(text + text.substr(0, size + 1)).ok()) << size;
    ASSERT_FALSE(checkpoint_of(text.substr(size + 1)).ok()) << size;
    std::string without = text;
    ASSERT_FALSE(checkpoint_of(without.erase(size, 1)).ok()) << size;
  }
}

TEST(Checkpoint, NumbersThatCannotBeAreRefused) {
  for (const GapMap& map : {GapMap{{5, 7}}, GapMap{{20, 20}}, GapMap{{20, 30}, {25, 40}}}) {
    EXPECT_FALSE(checkpoint_of(to_text({.files = {{.watermark = 10, .done_above = map}}})).ok());
  }
  EXPECT_FALSE(checkpoint_of(to_text({.files = {{.line = 0}}})).ok());
  EXPECT_FALSE(checkpoint_of(to_text({.files = {{.prefix_bytes = 65537}}})).ok());
}

TEST(Checkpoint, ADamagedFileIsNamedWithWhatToDo) {
  const TemporaryFolder folder;
  EXPECT_EQ(read_checkpoint(folder.file("none"))->has_value(), false);
  const std::string path = folder.write("checkpoint", "{\"keyway\":");
  const auto read = read_checkpoint(path);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, ErrorCode::kConflict);
  EXPECT_EQ(read.error().message,
            path +
                " is damaged: it is cut off\n"
                "  try: --fresh, to begin again: what was done is done again");
}

TEST(Checkpoint, AFileThatCannotBeReadIsAnErrorOfItsOwn) {
  const TemporaryFolder folder;
  const auto read = read_checkpoint(folder.path());
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, ErrorCode::kIo);
}

// It dies between the temporary file and the rename: what lies beside is not looked at.
TEST(Checkpoint, WhatWasWrittenBesideAndNotRenamedChangesNothing) {
  const TemporaryFolder folder;
  const std::string path = folder.file("checkpoint");
  ASSERT_TRUE(replace_file(path, to_text(some_checkpoint())).ok());
  Checkpoint newer = some_checkpoint();
  newer.files[1].watermark = 99;
  folder.write("checkpoint.7.1.new", to_text(newer).substr(0, 100));
  EXPECT_EQ(**read_checkpoint(path), some_checkpoint());
  ASSERT_TRUE(replace_file(path, to_text(newer)).ok());
  EXPECT_EQ(**read_checkpoint(path), newer);
}

TEST(Checkpoint, NamesThatAreNotUtf8CanBeStored) {
  EXPECT_EQ(storable("orders-\xc3\xa9.jsonl"), "orders-\xc3\xa9.jsonl");
  const std::string name = storable("a%b\xff.jsonl");
  EXPECT_EQ(name, "a%25b%ff.jsonl");
  const Checkpoint checkpoint{.files = {{.path = name}}};
  EXPECT_EQ(*checkpoint_of(to_text(checkpoint)), checkpoint);
}

}  // namespace
}  // namespace keyway
