#include "lanes/waiter_list.h"

#include <array>
#include <deque>
#include <random>

#include <gtest/gtest.h>

namespace keyway {
namespace {

TEST(WaiterList, StartsEmpty) {
  const WaiterList list;
  EXPECT_TRUE(list.empty());
  EXPECT_FALSE(list.has_more_than_one());
}

TEST(WaiterList, GivesWaitersOutInTheOrderTheyCame) {
  WaiterList list;
  std::array<Waiter, 3> waiters;
  for (Waiter& waiter : waiters) list.push_back(waiter);
  for (Waiter& waiter : waiters) EXPECT_EQ(&list.pop_front(), &waiter);
  EXPECT_TRUE(list.empty());
}

TEST(WaiterList, KnowsNoneOneAndMoreThanOne) {
  WaiterList list;
  std::array<Waiter, 2> waiters;
  list.push_back(waiters[0]);
  EXPECT_FALSE(list.empty());
  EXPECT_FALSE(list.has_more_than_one());
  list.push_back(waiters[1]);
  EXPECT_TRUE(list.has_more_than_one());
  list.pop_front();
  EXPECT_FALSE(list.has_more_than_one());
  list.pop_front();
}

TEST(WaiterList, AWaiterMayComeInFrontOfAllOthers) {
  WaiterList list;
  std::array<Waiter, 3> waiters;
  list.push_front(waiters[1]);
  list.push_back(waiters[2]);
  list.push_front(waiters[0]);
  for (Waiter& waiter : waiters) EXPECT_EQ(&list.pop_front(), &waiter);
}

TEST(WaiterList, AWaiterMayLeaveFromAnywhere) {
  for (std::size_t who = 0; who < 3; ++who) {
    WaiterList list;
    std::array<Waiter, 3> waiters;
    for (Waiter& waiter : waiters) list.push_back(waiter);
    WaiterList::unlink(waiters[who]);
    EXPECT_FALSE(WaiterList::linked(waiters[who]));
    for (std::size_t i = 0; i < 3; ++i) {
      if (i != who) {
        EXPECT_EQ(&list.pop_front(), &waiters[i]);
      }
    }
    EXPECT_TRUE(list.empty());
  }
}

TEST(WaiterList, AWaiterIsLinkedExactlyWhileItStandsInAList) {
  WaiterList list;
  Waiter waiter;
  EXPECT_FALSE(WaiterList::linked(waiter));
  list.push_back(waiter);
  EXPECT_TRUE(WaiterList::linked(waiter));
  list.pop_front();
  EXPECT_FALSE(WaiterList::linked(waiter));
  list.push_front(waiter);
  EXPECT_TRUE(WaiterList::linked(waiter));
  WaiterList::unlink(waiter);
  EXPECT_FALSE(WaiterList::linked(waiter));
}

TEST(WaiterList, AppendMovesAllOfTheOtherListBehindItsOwn) {
  for (std::size_t own = 0; own <= 2; ++own) {
    for (std::size_t others = 0; others <= 2; ++others) {
      WaiterList list;
      WaiterList other;
      std::array<Waiter, 5> waiters;
      for (std::size_t i = 0; i < own; ++i) list.push_back(waiters[i]);
      for (std::size_t i = own; i < own + others; ++i) other.push_back(waiters[i]);
      list.append(other);
      EXPECT_TRUE(other.empty());
      other.push_back(waiters[4]);  // it is as good as new
      EXPECT_EQ(&other.pop_front(), &waiters[4]);
      for (std::size_t i = 0; i < own + others; ++i) EXPECT_EQ(&list.pop_front(), &waiters[i]);
      EXPECT_TRUE(list.empty());
    }
  }
}

TEST(WaiterList, DoesWhatADequeDoes) {
  std::mt19937 random(7);  // NOLINT: the same every time
  WaiterList list;
  std::deque<Waiter*> expected;
  std::array<Waiter, 10> waiters;
  for (int step = 0; step < 20'000; ++step) {
    Waiter& waiter = waiters[random() % waiters.size()];
    if (!WaiterList::linked(waiter)) {
      if (random() % 2 == 0) {
        list.push_back(waiter);
        expected.push_back(&waiter);
      } else {
        list.push_front(waiter);
        expected.push_front(&waiter);
      }
    } else if (random() % 2 == 0) {
      WaiterList::unlink(waiter);
      std::erase(expected, &waiter);
    } else {
      ASSERT_EQ(&list.pop_front(), expected.front());
      expected.pop_front();
    }
    ASSERT_EQ(list.empty(), expected.empty());
    ASSERT_EQ(list.has_more_than_one(), expected.size() > 1);
  }
}

}  // namespace
}  // namespace keyway
