#include "base/futex.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace keyway {
namespace {

using std::chrono::steady_clock;
using namespace std::chrono_literals;

using Word = std::atomic<std::uint32_t>;

TEST(Futex, DoesNotSleepWhenTheWordHasChanged) {
  const Word word{1};
  EXPECT_TRUE(futex_wait(word, 0, std::nullopt));
  EXPECT_TRUE(futex_wait(word, 0, steady_clock::now() + 1h));
}

TEST(Futex, SleepsUntilItsDeadlineAndSaysSo) {
  const Word word{0};
  const auto deadline = steady_clock::now() + 20ms;
  while (futex_wait(word, 0, deadline)) {  // it may wake for no reason
  }
  EXPECT_GE(steady_clock::now(), deadline);
}

TEST(Futex, ADeadlineInThePastHasPassed) {
  const Word word{0};
  EXPECT_FALSE(futex_wait(word, 0, steady_clock::now()));
  EXPECT_FALSE(futex_wait(word, 0, steady_clock::now() - 1h));
  EXPECT_FALSE(futex_wait(word, 0, steady_clock::time_point{}));
}

TEST(Futex, ADeadlineBeforeTheClocksEpochHasPassedToo) {
  const Word word{0};
  EXPECT_FALSE(futex_wait(word, 0, steady_clock::time_point{} - 1ns));
  EXPECT_FALSE(futex_wait(word, 0, steady_clock::time_point::min()));
}

// Sleeps as a caller should: checks, sleeps, checks again.
void sleep_while_zero(const Word& word, Deadline deadline) {
  while (word.load(std::memory_order_acquire) == 0) {
    ASSERT_TRUE(futex_wait(word, 0, deadline));
  }
}

TEST(Futex, AWakeEndsASleepWithoutADeadline) {
  for (int round = 0; round < 200; ++round) {
    Word word{0};
    std::thread sleeper([&] { sleep_while_zero(word, std::nullopt); });
    word.store(1, std::memory_order_release);
    futex_wake_one(word);
    sleeper.join();
  }
}

TEST(Futex, AWakeEndsASleepWithTheLatestDeadlineThereIs) {
  Word word{0};
  std::thread sleeper([&] { sleep_while_zero(word, steady_clock::time_point::max()); });
  word.store(1, std::memory_order_release);
  futex_wake_one(word);
  sleeper.join();
}

TEST(Futex, WakeAllEndsEverySleep) {
  for (int round = 0; round < 50; ++round) {
    Word word{0};
    std::vector<std::thread> sleepers;
    for (int i = 0; i < 4; ++i) {
      sleepers.emplace_back([&] { sleep_while_zero(word, std::nullopt); });
    }
    word.store(1, std::memory_order_release);
    futex_wake_all(word);
    for (std::thread& sleeper : sleepers) sleeper.join();
  }
}

TEST(Futex, AsManyWakesAsSleepersWakeThemAll) {
  for (int round = 0; round < 50; ++round) {
    Word word{0};
    std::vector<std::thread> sleepers;
    for (int i = 0; i < 4; ++i) {
      sleepers.emplace_back([&] { sleep_while_zero(word, std::nullopt); });
    }
    word.store(1, std::memory_order_release);
    for (int i = 0; i < 4; ++i) futex_wake_one(word);
    for (std::thread& sleeper : sleepers) sleeper.join();
  }
}

TEST(Futex, AWakeWithoutSleepersDoesNothing) {
  const Word word{0};
  futex_wake_one(word);
  futex_wake_all(word);
  EXPECT_FALSE(futex_wait(word, 0, steady_clock::now()));  // the wakes were not kept for it
}

}  // namespace
}  // namespace keyway
