#include "base/stable_hash.h"

#include <gtest/gtest.h>

namespace keyway {
namespace {

std::string hash_of(std::string_view text) {
  StableHash hash;
  hash.add(text);
  return hash.hex();
}

// Of the bytes 0, 1, 2, ...: as the authors of SipHash published them.
TEST(StableHash, IsSipHashWith128Bits) {
  std::string bytes;
  for (const char* const expected :
       {"a3817f04ba25a8e66df67214c7550293", "da87c1d86b99af44347659119b22fc45",
        "8177228da4a45dc7fca38bdef60affe4"}) {
    EXPECT_EQ(hash_of(bytes), expected);
    bytes += static_cast<char>(bytes.size());
  }
}

TEST(StableHash, IsTheSameHoweverTheTextIsCut) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += static_cast<char>(i * 7);
  const std::string whole = hash_of(text);
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    StableHash hash;
    hash.add(std::string_view(text).substr(0, cut));
    hash.value();
    hash.add(std::string_view(text).substr(cut));
    ASSERT_EQ(hash.hex(), whole) << cut;
  }
}

TEST(StableHash, EveryByteAndTheLengthCount) {
  std::string text(40, '\0');
  const std::string before = hash_of(text);
  EXPECT_NE(hash_of(text + '\0'), before);
  for (char& byte : text) {
    byte = 1;
    EXPECT_NE(hash_of(text), before);
    byte = 0;
  }
}

}  // namespace
}  // namespace keyway
