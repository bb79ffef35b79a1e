#include "base/hash_key.h"

#include <array>
#include <bit>
#include <set>
#include <string>

#include <gtest/gtest.h>

namespace keyway {
namespace {

// A program may submit tasks from the constructor of a global object, before main().
const std::size_t hash_before_main = hash_key("tenant-42");

TEST(HashKey, IsTheSameBeforeMainAsAfter) { EXPECT_EQ(hash_key("tenant-42"), hash_before_main); }

TEST(HashKey, DependsOnTheTextAlone) {
  const std::string first = "tenant-42";
  const std::string second = "x" + first;
  EXPECT_EQ(hash_key(first), hash_key(std::string_view(second).substr(1)));
}

TEST(HashKey, TakesAKeyOfAnyLengthAndWithAnyBytes) {
  std::set<std::size_t> hashes{hash_key({}), hash_key(std::string_view("\0", 1))};
  for (std::size_t size = 1; size <= 100; ++size) {
    hashes.insert(hash_key(std::string(size, 'k')));
    hashes.insert(hash_key(std::string(size, 'k') + '\0'));
  }
  EXPECT_EQ(hashes.size(), 202U);
}

TEST(HashKey, EveryBitOfTheKeyReachesBothEndsOfTheHash) {
  // The high bits choose a table's shard, the low ones the place in it.
  for (const std::size_t size : {1U, 7U, 8U, 9U, 16U, 17U, 40U}) {
    const std::string key(size, 'k');
    for (std::size_t bit = 0; bit < 8 * size; ++bit) {
      std::string other = key;
      other[bit / 8] = static_cast<char>(other[bit / 8] ^ (1 << bit % 8));
      const std::size_t change = hash_key(key) ^ hash_key(other);
      ASSERT_NE(change >> 32, 0U) << "bit " << bit << " of " << size << " bytes";
      ASSERT_NE(change & 0xffffffff, 0U) << "bit " << bit << " of " << size << " bytes";
    }
  }
}

TEST(HashKey, KeysThatDifferInANumberSpreadEvenly) {
  constexpr int kKeys = 64'000;
  std::array<int, 64> shards{};
  std::array<int, 64> places{};
  for (int i = 0; i < kKeys; ++i) {
    const std::size_t hash = hash_key("tenant-" + std::to_string(i));
    ++shards[(hash >> 48) % 64];
    ++places[hash % 64];
  }
  // 1000 each are expected, with a standard deviation of 32.
  for (std::size_t i = 0; i < 64; ++i) {
    EXPECT_NEAR(shards[i], 1000, 200);
    EXPECT_NEAR(places[i], 1000, 200);
  }
}

}  // namespace
}  // namespace keyway
