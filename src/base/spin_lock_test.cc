#include "base/spin_lock.h"

#include <atomic>
#include <latch>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace keyway {
namespace {

TEST(SpinLock, TakesFourBytes) { EXPECT_EQ(sizeof(SpinLock<>), 4U); }

TEST(SpinLock, IsTakenByOneAtATime) {
  constexpr int kThreads = 8;  // more than cores here or there: a holder may be preempted
  constexpr int kRounds = 20'000;
  SpinLock<> lock;
  std::int64_t plain = 0;  // not atomic: a race would lose counts, and a sanitizer would see it
  int inside = 0;
  bool alone = true;
  std::latch start(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      start.arrive_and_wait();
      for (int round = 0; round < kRounds; ++round) {
        SpinGuard guard(lock);
        alone = alone && ++inside == 1;
        ++plain;
        --inside;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(alone);
  EXPECT_EQ(plain, std::int64_t{kThreads} * kRounds);
}

TEST(SpinLock, CannotBeTakenWhileItIsHeld) {
  SpinLock<> lock;
  SpinGuard guard(lock);
  bool taken = true;
  std::thread([&]() KEYWAY_NO_THREAD_SAFETY_ANALYSIS { taken = lock.try_lock(); }).join();
  EXPECT_FALSE(taken);
}

TEST(SpinLock, CanBeTakenAgainOnceItIsReleased) {
  SpinLock<> lock;
  {
    SpinGuard guard(lock);
  }
  if (lock.try_lock()) {
    lock.unlock();
  } else {
    ADD_FAILURE() << "still held after its guard has gone";
  }
}

TEST(SpinLock, WhatOneHolderWroteTheNextOneSees) {
  SpinLock<> lock;
  int written = 0;
  std::atomic<bool> done{false};
  std::thread writer([&] {
    {
      SpinGuard guard(lock);
      written = 42;
    }
    done.store(true, std::memory_order_relaxed);
  });
  while (!done.load(std::memory_order_relaxed)) std::this_thread::yield();
  {
    SpinGuard guard(lock);
    EXPECT_EQ(written, 42);
  }
  writer.join();
}

}  // namespace
}  // namespace keyway
