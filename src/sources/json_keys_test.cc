#include "keyway/json_keys.h"

#include <cstring>

#include <gtest/gtest.h>

namespace keyway {
namespace {

using Classify = std::function<Result<bool>(Record&)>;

Classify make(JsonKeysOptions options) {
  Result<Classify> made = json_keys(std::move(options));
  EXPECT_TRUE(made.ok());
  return *made;
}

// A record whose value has exactly its own bytes: whoever reads one more is caught by the address sanitizer.
Record record_of(std::string_view value) {
  auto buffer = std::make_shared_for_overwrite<char[]>(value.size());
  std::memcpy(buffer.get(), value.data(), value.size());
  Record record{.value = {buffer.get(), value.size()}};
  record.buffer = std::move(buffer);
  return record;
}

TEST(JsonKeys, KeyAndGroupAreTakenFromTheValue) {
  const Classify classify = make({.key = ".user.id", .group = ".tenant"});
  Record record = record_of(R"({"tenant":"t1","user":{"id":7}})");
  EXPECT_TRUE(*classify(record));
  EXPECT_EQ(record.key, "7");
  EXPECT_EQ(record.group, "t1");
  EXPECT_EQ(record.defect, "");
}

TEST(JsonKeys, AKeyWithoutEscapesIsAPartOfTheValue) {
  const Classify classify = make({.key = ".user"});
  Record record = record_of(R"({"user":"u7"})");
  const void* const buffer = record.buffer.get();
  EXPECT_TRUE(*classify(record));
  EXPECT_EQ(record.key->data(), record.value.data() + 9);
  EXPECT_EQ(record.buffer.get(), buffer);
}

TEST(JsonKeys, WhatIsUnescapedLivesAsLongAsTheRecord) {
  Record record = record_of(R"({"user":"a\u00e9\"b","tenant":"x\ty"})");
  const std::weak_ptr<const void> buffer = record.buffer;
  {
    const Classify classify = make({.key = ".user", .group = ".tenant"});
    EXPECT_TRUE(*classify(record));
    Record other = record_of(R"({"user":"\n\n\n\n\n\n","tenant":"\n\n\n"})");
    EXPECT_TRUE(*classify(other));
  }
  Record copy = record;
  record = {};
  EXPECT_EQ(copy.key, "a\xc3\xa9\"b");
  EXPECT_EQ(copy.group, "x\ty");
  EXPECT_FALSE(buffer.expired());
  copy = {};
  EXPECT_TRUE(buffer.expired());
}

TEST(JsonKeys, AMissingKeyIsAnErrorADefectLeftOutOrAName) {
  for (const auto& [json, message] :
       {std::pair(R"({"usr":"u7"})", "no value at .user"),
        std::pair(R"({"user":null})", "no value at .user"),
        std::pair("hello", "not JSON: \"hello\" is no value"),
        std::pair("{\"user\":\"\xff\"}", "not JSON: it is not UTF-8")}) {
    Record record = record_of(json);
    const Result<bool> failed = make({.key = ".user"})(record);
    ASSERT_FALSE(failed.ok()) << json;
    EXPECT_EQ(failed.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(failed.error().message, message);

    record = record_of(json);
    EXPECT_TRUE(*make({.key = ".user", .on_missing = KeyMissing::kDead})(record));
    EXPECT_EQ(record.defect, message);

    record = record_of(json);
    EXPECT_FALSE(*make({.key = ".user", .on_missing = KeyMissing::kSkip})(record));

    record = record_of(json);
    EXPECT_TRUE(*make({.key = ".user", .on_missing = KeyMissing::kName, .name = "none"})(record));
    EXPECT_EQ(record.key, "none") << "it outlives the function";
    EXPECT_EQ(record.defect, "");
  }
}

TEST(JsonKeys, AMissingGroupIsTreatedAsAMissingKey) {
  Record record = record_of(R"({"user":"u7"})");
  EXPECT_EQ(make({.key = ".user", .group = ".tenant"})(record).error().message,
            "no value at .tenant");
  const Classify named =
      make({.key = ".user", .group = ".tenant", .on_missing = KeyMissing::kName, .name = "none"});
  EXPECT_TRUE(*named(record));
  EXPECT_EQ(record.key, "u7");
  EXPECT_EQ(record.group, "none");
}

TEST(JsonKeys, AKeyThatIsTooLongIsTreatedAsAMissingOne) {
  Record record = record_of("{\"user\":\"" + std::string(65'535, 'x') + "\"}");
  EXPECT_TRUE(*make({.key = ".user"})(record));
  record = record_of("{\"user\":\"" + std::string(65'536, 'x') + "\"}");
  EXPECT_EQ(make({.key = ".user"})(record).error().message,
            "the value at .user has 65536 bytes; a key has at most 65535");
}

TEST(JsonKeys, BlankValuesAreLeftOut) {
  const Classify classify = make({.key = ".user"});
  for (const char* const blank : {"", " ", "\t \r"}) {
    Record record = record_of(blank);
    EXPECT_FALSE(*classify(record));
  }
}

TEST(JsonKeys, WithoutPathsARecordHasNeitherKeyNorGroup) {
  Record record = record_of("{}");
  EXPECT_TRUE(*make({})(record));
  EXPECT_EQ(record.key, std::nullopt);
  EXPECT_EQ(record.group, std::nullopt);
}

TEST(JsonKeys, WhatIsNoPathIsRefused) {
  EXPECT_EQ(json_keys({.key = "user"}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(json_keys({.key = ".user", .group = ".."}).error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace keyway
