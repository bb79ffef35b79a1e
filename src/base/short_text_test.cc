#include "keyway/detail/short_text.h"

#include <string>

#include <gtest/gtest.h>

namespace keyway::detail {
namespace {

constexpr std::size_t kLongest = 40;  // beyond every size that is treated by itself

// On the heap and exactly as long as it is, so that a sanitizer sees a step too far.
std::string text_of(std::size_t size) {
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>('a' + i % 26);
  text.shrink_to_fit();
  return text;
}

TEST(ShortText, TextsAreTheSameExactlyIfEveryByteIs) {
  for (std::size_t size = 0; size <= kLongest; ++size) {
    const std::string text = text_of(size);
    EXPECT_TRUE(same_text(text, text_of(size))) << size;
    for (std::size_t i = 0; i < size; ++i) {
      std::string other = text;
      other[i] ^= 1;
      EXPECT_FALSE(same_text(text, other)) << "byte " << i << " of " << size;
      EXPECT_FALSE(same_text(other, text)) << "byte " << i << " of " << size;
    }
    EXPECT_FALSE(same_text(text, text + "x")) << size;
    EXPECT_FALSE(same_text(text, text + '\0')) << size;
  }
  EXPECT_TRUE(same_text({}, ""));
}

TEST(ShortText, CopiesEveryByteAndNoMore) {
  for (std::size_t size = 0; size <= kLongest; ++size) {
    const std::string text = text_of(size);
    std::string to(size + 2, '#');
    copy_text(to.data() + 1, text);
    EXPECT_EQ(to, "#" + text + "#") << size;
  }
  copy_text(nullptr, {});
}

TEST(ShortText, AWordOfUpToEightBytesDependsOnEachOfThem) {
  for (std::size_t size = 1; size <= 8; ++size) {
    const std::string text = text_of(size);
    for (std::size_t i = 0; i < size; ++i) {
      std::string other = text;
      other[i] ^= 1;
      EXPECT_NE(load_up_to_8(text.data(), size), load_up_to_8(other.data(), size))
          << "byte " << i << " of " << size;
    }
  }
}

}  // namespace
}  // namespace keyway::detail
