#include "keyway/detail/block_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <latch>
#include <numeric>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include <unistd.h>

#include <gtest/gtest.h>

#include "support/memory.h"

namespace keyway::detail {
namespace {

bool aligned(const void* block, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(block) % alignment == 0;
}

// Fills a block with a byte that tells it from its neighbours, and finds it unchanged later.
struct Filled {
  unsigned char* bytes;
  std::size_t size_bytes;
  unsigned char mark;

  static Filled make(std::size_t size_bytes, unsigned char mark) {
    auto* bytes = static_cast<unsigned char*>(allocate_block(size_bytes));
    std::memset(bytes, mark, size_bytes);
    return {bytes, size_bytes, mark};
  }
  bool intact() const {
    return std::all_of(bytes, bytes + size_bytes, [this](unsigned char b) { return b == mark; });
  }
  void free() const { deallocate_block(bytes, size_bytes); }
};

TEST(BlockPool, ABlockIsAlignedTo16BytesAndTo64IfItsSizeIsAMultipleOfThat) {
  for (std::size_t size = 1; size <= kMaxBlockBytes + 100; ++size) {
    std::vector<void*> blocks;
    for (int i = 0; i < 5; ++i) blocks.push_back(allocate_block(size));
    for (void* block : blocks) {
      EXPECT_TRUE(aligned(block, size % 64 == 0 ? 64 : 16)) << size << " bytes at " << block;
      deallocate_block(block, size);
    }
  }
}

TEST(BlockPool, ABlockThatIsGivenBackIsTheNextToBeTaken) {
  KEYWAY_SKIP_IF_SANITIZED();
  for (std::size_t size : {1UL, 32UL, 33UL, 96UL, 256UL, kMaxBlockBytes}) {
    void* first = allocate_block(size);
    deallocate_block(first, size);
    void* second = allocate_block(size);
    EXPECT_EQ(first, second) << size << " bytes";
    deallocate_block(second, size);
  }
}

TEST(BlockPool, ABlockOfZeroBytesIsABlockOfItsOwn) {
  void* first = allocate_block(0);
  void* second = allocate_block(0);
  EXPECT_NE(first, second);
  deallocate_block(second, 0);
  deallocate_block(first, 0);
}

TEST(BlockPool, BlocksInUseNeverOverlap) {
  const char* given = std::getenv("KEYWAY_SEED");
  const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 20240611;
  SCOPED_TRACE("KEYWAY_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  std::vector<Filled> live;
  for (int step = 0; step < 200'000; ++step) {
    if (live.size() < 5000 && random() % 5 < 3) {
      live.push_back(
          Filled::make(1 + random() % kMaxBlockBytes, static_cast<unsigned char>(random())));
    } else if (!live.empty()) {
      std::swap(live[random() % live.size()], live.back());
      ASSERT_TRUE(live.back().intact()) << "step " << step;
      live.back().free();
      live.pop_back();
    }
    if (step % 50'000 == 0) trim_blocks();
  }
  for (const Filled& block : live) {
    EXPECT_TRUE(block.intact());
    block.free();
  }
}

TEST(BlockPool, ABlockMayBeGivenBackOnAnotherThread) {
  constexpr int kRounds = 20;
  constexpr int kBlocks = 5000;
  // Two makers and two takers per round; each taker gives back what one maker took.
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::atomic<Filled*>> slots(2 * kBlocks);
    std::vector<std::thread> threads;
    for (int half = 0; half < 2; ++half) {
      threads.emplace_back([&slots, half] {
        for (int i = 0; i < kBlocks; ++i) {
          auto* block = new Filled(Filled::make(96, static_cast<unsigned char>(i)));
          slots[static_cast<std::size_t>(half * kBlocks + i)].store(block);
        }
      });
      threads.emplace_back([&slots, half] {
        for (int i = 0; i < kBlocks; ++i) {
          auto& slot = slots[static_cast<std::size_t>(half * kBlocks + i)];
          while (slot.load() == nullptr) std::this_thread::yield();
          const std::unique_ptr<Filled> block(slot.load());
          EXPECT_TRUE(block->intact());
          block->free();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

TEST(BlockPool, BlocksMayBeTakenAndGivenBackAfterTheThreadsOwnCacheIsGone) {
  struct Late {
    ~Late() {  // constructed before the cache, so destroyed after it
      void* block = allocate_block(96);
      std::memset(block, 1, 96);
      deallocate_block(block, 96);
      if (kept != nullptr) deallocate_block(kept, 160);
    }
    void* kept = nullptr;
  };
  std::thread([] {
    thread_local Late late;
    late.kept = nullptr;  // constructs it
    late.kept = allocate_block(160);
  }).join();
}

TEST(BlockPool, ABlockAboveTheLargestSizeIsServedToo) {
  const Filled block = Filled::make(100'000, 7);
  EXPECT_TRUE(aligned(block.bytes, 64));
  EXPECT_TRUE(block.intact());
  block.free();
}

// Takes a million blocks, gives them back in the order that `order` says, and trims; how much more
// memory the process has than before.
std::int64_t kept_after_a_million_blocks(const std::vector<std::uint32_t>& order) {
  constexpr std::size_t kBytes = 96;
  std::vector<void*> blocks(order.size(), &blocks);  // touched before the measure
  trim_blocks();
  const std::int64_t before = resident_bytes();
  for (void*& block : blocks) {
    block = allocate_block(kBytes);
    std::memset(block, 1, kBytes);
  }
  const std::int64_t in_use = resident_bytes();
  EXPECT_GT(in_use - before, static_cast<std::int64_t>(order.size() * kBytes * 9 / 10));
  for (std::uint32_t index : order) deallocate_block(blocks[index], kBytes);
  trim_blocks();
  return resident_bytes() - before;
}

constexpr std::size_t kMillion = 1'000'000;
constexpr std::int64_t kReserveBytes = 2 << 20;

TEST(BlockPool, TrimGivesTheMemoryOfAMillionBlocksBackToTheSystem) {
  KEYWAY_SKIP_IF_SANITIZED();
  std::vector<std::uint32_t> order(kMillion);
  std::iota(order.begin(), order.end(), 0);
  EXPECT_LT(kept_after_a_million_blocks(order), kReserveBytes) << "first in, first out";
  std::reverse(order.begin(), order.end());
  EXPECT_LT(kept_after_a_million_blocks(order), kReserveBytes) << "last in, first out";
}

TEST(BlockPool, TrimGivesTheMemoryBackWhateverTheOrderInWhichBlocksCame) {
  KEYWAY_SKIP_IF_SANITIZED();
  std::vector<std::uint32_t> order(kMillion);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(1));  // NOLINT: the same every time
  EXPECT_LT(kept_after_a_million_blocks(order), kReserveBytes);
}

TEST(BlockPool, WhatIsGivenBackLongAfterTheLastWasTakenIsNotKept) {
  KEYWAY_SKIP_IF_SANITIZED();
  trim_blocks();
  std::vector<void*> blocks(kMillion, &blocks);
  const std::int64_t before = resident_bytes();
  for (void*& block : blocks) {
    block = allocate_block(96);
    std::memset(block, 1, 96);
  }
  const auto taken = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < kMillion / 2; ++i) deallocate_block(blocks[i], 96);
  const std::int64_t half = resident_bytes() - before;
  // On a busy machine the time may be over already.
  if (std::chrono::steady_clock::now() - taken < kBlocksKept) {
    EXPECT_GT(half, 90'000'000) << "at first it is kept for those who come back";
  }
  std::this_thread::sleep_for(kBlocksKept + std::chrono::milliseconds(50));
  for (std::size_t i = kMillion / 2; i < kMillion; ++i) deallocate_block(blocks[i], 96);
  EXPECT_LT(resident_bytes() - before, kReserveBytes);
}

TEST(BlockPool, AThreadThatEndsLeavesItsBlocksToTheOthers) {
  KEYWAY_SKIP_IF_SANITIZED();
  constexpr int kThreads = 50;
  trim_blocks();
  const std::int64_t before = resident_bytes();
  for (int i = 0; i < kThreads; ++i) {
    std::thread([] {
      std::vector<void*> blocks(20'000);
      for (void*& block : blocks) block = allocate_block(96);
      for (void* block : blocks) deallocate_block(block, 96);
    }).join();
  }
  trim_blocks();
  // 50 x 1.9 MB, if every thread kept its own.
  EXPECT_LT(resident_bytes() - before, 8 << 20);
}

}  // namespace
}  // namespace keyway::detail
