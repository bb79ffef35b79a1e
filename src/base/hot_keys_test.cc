#include "base/hot_keys.h"

#include <cmath>
#include <cstdlib>
#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>

namespace keyway {
namespace {

// Key number k occurs in proportion to 1 / k^exponent.
class Zipf {
 public:
  Zipf(int keys, double exponent) {
    std::vector<double> weights;
    for (int k = 1; k <= keys; ++k) weights.push_back(1 / std::pow(k, exponent));
    keys_ = std::discrete_distribution<int>(weights.begin(), weights.end());
  }
  std::string operator()(std::mt19937_64& random) { return "key-" + std::to_string(keys_(random)); }

 private:
  std::discrete_distribution<int> keys_;
};

using Exact = std::map<std::string, std::uint64_t>;

void expect_guarantees(const HotKeys& hot, const Exact& exact) {
  const double bound = static_cast<double>(hot.total()) / static_cast<double>(hot.capacity());
  std::uint64_t total = 0;
  std::uint64_t counted = 0;
  std::set<std::string> present;
  std::uint64_t last = static_cast<std::uint64_t>(-1);
  for (const HotKeys::Entry& entry : hot.top(hot.capacity())) {
    const std::uint64_t truth = exact.at(entry.key);
    ASSERT_LE(truth, entry.count) << entry.key;
    ASSERT_LE(entry.count - entry.error, truth) << entry.key;
    ASSERT_LE(static_cast<double>(entry.error), bound) << entry.key;
    ASSERT_LE(entry.count, last) << "not in order";
    last = entry.count;
    counted += entry.count;
    ASSERT_TRUE(present.insert(entry.key).second) << entry.key << " is there twice";
  }
  for (const auto& [key, truth] : exact) {
    total += truth;
    if (static_cast<double>(truth) > bound) {
      ASSERT_TRUE(present.contains(key)) << key << " occurs " << truth << " times";
    }
  }
  EXPECT_EQ(hot.total(), total);
  EXPECT_EQ(counted, total) << "the counts of all add up to the total";
  EXPECT_LE(hot.size(), hot.capacity());
}

struct Stream {
  int keys;
  double exponent;
  std::size_t capacity;
  std::uint64_t most_weight;
};

class HotKeysOfAStream : public testing::TestWithParam<Stream> {};

TEST_P(HotKeysOfAStream, KeepWhatTheyPromiseAgainstAnExactCount) {
  const Stream stream = GetParam();
  const char* given = std::getenv("KEYWAY_SEED");
  const std::uint64_t seed = given == nullptr ? 42 : std::strtoull(given, nullptr, 10);
  SCOPED_TRACE("KEYWAY_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  Zipf next(stream.keys, stream.exponent);
  std::uniform_int_distribution<std::uint64_t> weight(1, stream.most_weight);
  HotKeys hot(stream.capacity);
  Exact exact;
  for (int i = 1; i <= 60'000; ++i) {
    const std::string key = next(random);
    const std::uint64_t times = weight(random);
    hot.add(key, times);
    exact[key] += times;
    if (i % 15'000 == 0) {
      ASSERT_NO_FATAL_FAILURE(expect_guarantees(hot, exact));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Zipf, HotKeysOfAStream,
                         testing::Values(Stream{10'000, 1.1, 64, 1}, Stream{10'000, 0.6, 64, 1},
                                         Stream{50'000, 0.0, 100, 1}, Stream{1000, 1.5, 8, 1},
                                         Stream{5000, 1.0, 1, 1}, Stream{10'000, 1.0, 64, 1000}));

TEST(HotKeys, TheHottestOfAZipfStreamAreFoundInTheirOrder) {
  std::mt19937_64 random(1);
  Zipf next(10'000, 1.3);
  HotKeys hot(200);
  for (int i = 0; i < 200'000; ++i) hot.add(next(random));
  const auto top = hot.top(5);
  ASSERT_EQ(top.size(), 5U);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(top[i].key, "key-" + std::to_string(i));
}

TEST(HotKeys, AreExactWhileThereIsRoom) {
  HotKeys hot(3);
  hot.add("b");
  hot.add("a", 5);
  hot.add("c");
  hot.add("b");
  hot.add("c");
  const auto top = hot.top(10);
  ASSERT_EQ(top.size(), 3U);
  EXPECT_EQ(top[0].key, "a");
  EXPECT_EQ(top[0].count, 5U);
  EXPECT_EQ(top[1].key, "b") << "as many as c, and first in the alphabet";
  EXPECT_EQ(top[1].count, 2U);
  EXPECT_EQ(top[2].key, "c");
  for (const auto& entry : top) EXPECT_EQ(entry.error, 0U);
  EXPECT_EQ(hot.top(1).size(), 1U);
  EXPECT_TRUE(hot.top(0).empty());
}

TEST(HotKeys, ANewKeyTakesThePlaceAndTheCountOfTheRarest) {
  HotKeys hot(2);
  hot.add("hot", 10);
  hot.add("rare", 3);
  hot.add("new");
  const auto top = hot.top(2);
  EXPECT_EQ(top[0].key, "hot");
  EXPECT_EQ(top[1].key, "new");
  EXPECT_EQ(top[1].count, 4U);
  EXPECT_EQ(top[1].error, 3U);
}

TEST(HotKeys, ASlotIsTheKeysOwnUntilAnotherTakesItOver) {
  HotKeys hot(2);
  const auto first = hot.add("a");
  EXPECT_TRUE(first.is_new);
  EXPECT_FALSE(hot.add("a").is_new);
  EXPECT_EQ(hot.add("a").slot, first.slot);
  const auto second = hot.add("b");
  EXPECT_TRUE(second.is_new);
  EXPECT_NE(second.slot, first.slot);
  const auto third = hot.add("c");
  EXPECT_TRUE(third.is_new);
  EXPECT_EQ(third.slot, second.slot);
  EXPECT_EQ(hot.top(1)[0].slot, first.slot);
}

TEST(HotKeys, AWeightOfZeroChangesNoCount) {
  HotKeys hot(2);
  hot.add("a", 0);
  hot.add("a", 0);
  EXPECT_EQ(hot.total(), 0U);
  ASSERT_EQ(hot.size(), 1U);
  EXPECT_EQ(hot.top(1)[0].count, 0U);
}

TEST(HotKeys, TakeTheEmptyKeyAndOneWithAnyBytes) {
  HotKeys hot(4);
  const std::string odd("a\0b", 3);
  hot.add("");
  hot.add(odd, 2);
  hot.add("a");
  EXPECT_EQ(hot.size(), 3U);
  EXPECT_EQ(hot.top(1)[0].key, odd);
}

TEST(HotKeys, StayWhatTheyWereWhenMoved) {
  HotKeys hot(2);
  hot.add("a", 2);
  HotKeys moved = std::move(hot);
  moved.add("b");
  moved.add("c");
  EXPECT_EQ(moved.top(2)[0].key, "a");
  EXPECT_EQ(moved.top(2)[1].key, "c");
}

}  // namespace
}  // namespace keyway
