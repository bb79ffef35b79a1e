#include "jobs/hash_set.h"

#include <random>
#include <set>

#include <gtest/gtest.h>

namespace keyway::jobs {
namespace {

TEST(HashSet, KnowsWhatWasInserted) {
  HashSet hashes;
  std::set<std::uint64_t> model;
  std::mt19937_64 random(7);
  for (int i = 0; i < 20'000; ++i) {
    const std::uint64_t hash = random() % 15'000;  // 0 too, and many twice
    EXPECT_EQ(hashes.insert(hash), model.insert(hash).second);
  }
  EXPECT_EQ(hashes.size(), model.size());
}

}  // namespace
}  // namespace keyway::jobs
