#include "serial/serial_load.h"

#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/detail/queued_call.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;

TEST(SerialLoad, NeverMoreHaveAPlaceThanMay) {
  constexpr int kCapacity = 3;
  SerialLoad load(kCapacity, nullptr);
  std::atomic<int> have_one = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 5000; ++n) {
        if (!load.take_place()) continue;
        EXPECT_LE(++have_one, kCapacity);
        --have_one;
        load.give_back_place();
      }
    });
  }
  threads.clear();
  for (int i = 0; i < kCapacity; ++i) EXPECT_TRUE(load.take_place());
  EXPECT_FALSE(load.take_place());
}

TEST(SerialLoad, APlaceIsGivenBackWhenTheWorkBeginsOrIsDropped) {
  SerialLoad load(1, nullptr);
  {
    detail::QueuePlace dropped(load);
    const detail::QueuePlace moved(std::move(dropped));
    EXPECT_FALSE(moved.is_none());
    EXPECT_TRUE(detail::QueuePlace(load).is_none());
  }
  detail::QueuePlace begun(load);
  EXPECT_FALSE(begun.is_none());
  EXPECT_TRUE(begun.matters());
  begun.leave();
  EXPECT_FALSE(detail::QueuePlace(load).is_none());
}

TEST(SerialLoad, WithoutALimitThereIsAlwaysAPlace) {
  SerialLoad load(kUnlimited, nullptr);
  std::vector<detail::QueuePlace> places;
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(places.emplace_back(load).is_none());
}

}  // namespace
}  // namespace keyway
