#include "lanes/ready_queue.h"

#include <array>
#include <atomic>
#include <barrier>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace keyway {
namespace {

struct Item final : Runnable {
  void run(Turn&) override {}
  int producer = 0;
  int number = 0;
  std::atomic<int> times_popped{0};
};

TEST(ReadyQueue, StartsEmpty) {
  ReadyQueue queue;
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.pop(), nullptr);
}

TEST(ReadyQueue, GivesItemsOutInTheOrderTheyCame) {
  ReadyQueue queue;
  std::array<Item, 5> items;
  for (Item& item : items) queue.push(item);
  for (Item& item : items) {
    EXPECT_FALSE(queue.empty());
    EXPECT_EQ(queue.pop(), &item);
  }
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.pop(), nullptr);
}

TEST(ReadyQueue, KeepsTheOrderWhenPushesAndPopsAlternate) {
  ReadyQueue queue;
  std::array<Item, 64> items;
  std::size_t pushed = 0;
  std::size_t popped = 0;
  // Two in, one out; then one in, two out: the queue grows, shrinks and runs empty.
  while (popped < items.size()) {
    const std::size_t in = pushed < items.size() / 2 ? 2 : 1;
    for (std::size_t i = 0; i < in && pushed < items.size(); ++i) queue.push(items[pushed++]);
    const std::size_t out = in == 2 ? 1 : 2;
    for (std::size_t i = 0; i < out && popped < pushed; ++i) {
      ASSERT_EQ(queue.pop(), &items[popped++]);
    }
    ASSERT_EQ(queue.empty(), popped == pushed);
  }
}

TEST(ReadyQueue, AnItemMayComeBackAsSoonAsItIsTaken) {
  ReadyQueue queue;
  std::array<Item, 3> items;
  for (Item& item : items) queue.push(item);
  for (int round = 0; round < 10; ++round) {  // round robin
    for (Item& item : items) {
      ASSERT_EQ(queue.pop(), &item);
      queue.push(item);
    }
  }
  for (Item& item : items) EXPECT_EQ(queue.pop(), &item);
}

TEST(ReadyQueue, AnItemAloneMayComeAndGoManyTimes) {
  ReadyQueue queue;
  Item item;
  for (int round = 0; round < 1000; ++round) {
    queue.push(item);
    ASSERT_FALSE(queue.empty());
    ASSERT_EQ(queue.pop(), &item);
    ASSERT_TRUE(queue.empty());
  }
}

TEST(ReadyQueue, FourProducersAndTwoConsumersLoseNothingAndKeepEachProducersOrder) {
  constexpr int kProducers = 4;
  constexpr int kConsumers = 2;
  constexpr int kItems = 50'000;
  ReadyQueue queue;
  const auto items = std::make_unique<Item[]>(kProducers * kItems);
  std::atomic<int> left{kProducers * kItems};
  std::latch start(kProducers + kConsumers);
  std::vector<std::thread> threads;
  for (int producer = 0; producer < kProducers; ++producer) {
    threads.emplace_back([&, producer] {
      start.arrive_and_wait();
      for (int number = 0; number < kItems; ++number) {
        Item& item = items[static_cast<std::size_t>(producer * kItems + number)];
        item.producer = producer;
        item.number = number;
        queue.push(item);
      }
    });
  }
  for (int consumer = 0; consumer < kConsumers; ++consumer) {
    threads.emplace_back([&] {
      std::array<int, kProducers> last;
      last.fill(-1);
      start.arrive_and_wait();
      while (left.load() > 0) {
        auto* item = static_cast<Item*>(queue.pop());
        if (item == nullptr) {
          std::this_thread::yield();
          continue;
        }
        ++item->times_popped;
        int& before = last[static_cast<std::size_t>(item->producer)];
        EXPECT_LT(before, item->number) << "out of order, producer " << item->producer;
        before = item->number;
        --left;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < kProducers * kItems; ++i) {
    ASSERT_EQ(items[static_cast<std::size_t>(i)].times_popped, 1) << "item " << i;
  }
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.pop(), nullptr);
}

TEST(ReadyQueue, ItemsThatGoRoundAreNeverLostNorDoubled) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 20'000;
  ReadyQueue queue;
  std::array<Item, 3> items;  // fewer than threads, so that the queue runs empty all the time
  for (Item& item : items) queue.push(item);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) {
        auto* item = static_cast<Item*>(queue.pop());
        if (item == nullptr) {
          std::this_thread::yield();
          continue;
        }
        EXPECT_EQ(item->times_popped.fetch_add(1), 0) << "two have it";
        item->times_popped.fetch_sub(1);
        queue.push(*item);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  int left = 0;
  while (queue.pop() != nullptr) ++left;
  EXPECT_EQ(left, 3);
}

// What the pool's sleep protocol builds on: who says that it sleeps and then sees the queue empty
// is seen by whoever pushes and then looks for sleepers.
TEST(ReadyQueue, APushAndALookAtItNeverMissEachOther) {
  constexpr int kRounds = 20'000;
  ReadyQueue queue;
  Item item;
  std::atomic<bool> sleeps{false};
  bool saw_empty = false;
  bool saw_sleeper = false;
  std::barrier both(2);
  std::thread sleeper([&] {
    for (int round = 0; round < kRounds; ++round) {
      both.arrive_and_wait();
      sleeps.store(true, std::memory_order_seq_cst);
      saw_empty = queue.empty();
      both.arrive_and_wait();
    }
  });
  int missed = 0;
  for (int round = 0; round < kRounds; ++round) {
    sleeps.store(false);
    both.arrive_and_wait();
    queue.push(item);
    saw_sleeper = sleeps.load(std::memory_order_seq_cst);
    both.arrive_and_wait();
    if (!saw_sleeper && saw_empty) ++missed;
    queue.pop();
  }
  sleeper.join();
  EXPECT_EQ(missed, 0);
}

}  // namespace
}  // namespace keyway
