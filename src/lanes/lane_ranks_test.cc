// Lanes in which some have a priority or cost several permits, against a model that is plainly right.
#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "lanes/lane.h"

namespace keyway {
namespace {

struct Guest {
  Waiter waiter;
  LaneRank rank;
  std::uint32_t units = 0;
};

Guest& guest_of(const Waiter& waiter) {
  return *reinterpret_cast<Guest*>(const_cast<Waiter*>(&waiter));
}

struct Owner final : LaneOwner {
  void run_turn(Lane&, Turn&) override {}
  LaneRank rank_of(const Waiter& waiter) const override { return guest_of(waiter).rank; }
};

// Does everything to a lane and to a model of it.
class Checked {
 public:
  explicit Checked(std::uint64_t seed)
      : random_(seed), limits_{limit(), below(2) == 0 ? kNoLimit : below(4)} {}

  void run() {
    for (int i = 0; i < 60 && !::testing::Test::HasFailure(); ++i) step();
    lane_.set_paused(paused_ = false) ? turn_ = true : false;
    while (!::testing::Test::HasFailure() && (turn_ || !running_.empty())) {
      turn_ ? take() : finish(false);
    }
    EXPECT_TRUE(waiting_.empty()) << "somebody waits, and nobody will come";
    EXPECT_EQ(lane_.idle(), lent_.empty());
    EXPECT_EQ(lane_.empty(), lent_.empty());
  }

 private:
  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(random_() % bound); }
  std::uint32_t limit() { return 1 + below(5); }

  void step() {
    switch (below(10)) {
      case 0:
        if (!waiting_.empty())
          withdraw(*waiting_[below(static_cast<std::uint32_t>(waiting_.size()))]);
        break;
      case 1:
        limits_.running = limit();
        post(lane_.set_limits(limits_).post_turn);
        break;
      case 2:
        paused_ = !paused_;
        post(lane_.set_paused(paused_));
        break;
      case 3:
        give_back();
        break;
      case 4:
      case 5:
        if (turn_) take();
        break;
      case 6:
      case 7:
        finish(below(2) == 0);
        break;
      default:
        below(3) == 0 && !lent_.empty() ? come_back() : enter();
    }
    check();
  }

  void post(bool must) {
    if (!must) return;
    EXPECT_FALSE(turn_) << "two turns";
    turn_ = true;
  }

  std::uint32_t units_of(const Guest& guest) const {
    return std::min(guest.rank.cost, limits_.running);
  }
  bool fits(const Guest& guest, std::uint32_t used) const {
    return !(paused_ && returners_ == 0) && used + units_of(guest) <= limits_.running;
  }
  std::uint32_t used() const {
    std::uint32_t sum = 0;
    for (const Guest* guest : running_) sum += guest->units;
    return sum;
  }

  void enter() {
    Guest& guest = *guests_.emplace_back(std::make_unique<Guest>());
    if (below(2) == 0)
      guest.rank = {.cost = 1 + below(4), .priority = static_cast<int>(below(4)) - 1};
    const bool full = is_full(guest);
    const Lane::Entered entered =
        guest.rank.plain() ? lane_.enter(guest.waiter) : lane_.enter_ranked(guest.waiter);
    EXPECT_EQ(entered == Lane::Entered::kFull, full);
    if (entered == Lane::Entered::kFull) return;
    auto place = waiting_.begin() + static_cast<std::ptrdiff_t>(returners_);
    while (place != waiting_.end() && (*place)->rank.priority >= guest.rank.priority) ++place;
    waiting_.insert(place, &guest);
    post(entered == Lane::Entered::kNeedsTurn);
  }
  // Whether the lane holds back as many as it may. One in which nobody has or had a rank counts heads.
  bool is_full(const Guest& newcomer) const {
    if (limits_.waiting == kNoLimit) return false;
    std::uint32_t sum = used();
    const std::size_t fitting = count_fitting(waiting_.size(), sum);
    if (fitting == waiting_.size() && fits(newcomer, sum)) return false;
    return waiting_.size() - fitting >= limits_.waiting;
  }
  // Of the first `most` who wait; adds their units to `sum`.
  std::size_t count_fitting(std::size_t most, std::uint32_t& sum) const {
    std::size_t fitting = 0;
    while (fitting < most && fits(*waiting_[fitting], sum)) sum += units_of(*waiting_[fitting++]);
    return fitting;
  }

  void withdraw(Guest& guest) {
    if (is_returner(guest)) return;
    const Lane::Withdrawn left = lane_.withdraw(guest.waiter);
    EXPECT_TRUE(left.withdrawn);
    std::erase(waiting_, &guest);
    post(left.post_turn);
  }
  bool is_returner(const Guest& guest) const {
    const auto end = waiting_.begin() + static_cast<std::ptrdiff_t>(returners_);
    return std::find(waiting_.begin(), end, &guest) != end;
  }

  void take() {
    turn_ = false;
    const std::uint64_t could_run = lane_.could_run();
    taken(lane_.take());
    EXPECT_EQ(lane_.could_run(), could_run);
  }
  void finish(bool go_on) {
    if (running_.empty()) return;
    Guest& guest = *running_[below(static_cast<std::uint32_t>(running_.size()))];
    std::erase(running_, &guest);
    taken(lane_.finish(LaneOutcome::kSucceeded, go_on, guest.units));
  }
  void taken(const LaneTake& take) {
    post(take.post_turn);
    if (take.waiter == nullptr) return;
    Guest& guest = guest_of(*take.waiter);
    ASSERT_FALSE(waiting_.empty());
    EXPECT_EQ(&guest, waiting_.front()) << "out of order";
    EXPECT_TRUE(fits(guest, used())) << "over the limit";
    guest.units = take.units;
    EXPECT_EQ(guest.units, units_of(guest));
    std::erase(waiting_, &guest);
    running_.push_back(&guest);
    if (returners_ > 0) --returners_;
  }
  void give_back() {
    if (running_.empty()) return;
    Guest& guest = *running_.front();
    std::erase(running_, &guest);
    guest.rank.priority = 0;  // returning waiters have none
    lent_.push_back(&guest);
    post(lane_.give_back(guest.units));
  }
  void come_back() {
    Guest& guest = *lent_.back();
    lent_.pop_back();
    waiting_.insert(waiting_.begin() + static_cast<std::ptrdiff_t>(returners_), &guest);
    ++returners_;
    post(lane_.enter_again(guest.waiter) == Lane::Entered::kNeedsTurn);
  }

  void check() {
    const LaneCounts counts = lane_.counts();
    EXPECT_EQ(counts.waiting, waiting_.size());
    EXPECT_EQ(counts.running, running_.size());
    std::uint32_t sum = used();
    const std::size_t able = paused_ ? returners_ : waiting_.size();
    EXPECT_EQ(lane_.could_run(), running_.size() + count_fitting(able, sum));
    const Waiter* next = nullptr;
    lane_.of_next([&](const Waiter& waiter) {
      next = &waiter;
      return 0;
    });
    EXPECT_EQ(next, waiting_.empty() ? nullptr : &waiting_.front()->waiter);
    if (!waiting_.empty() && fits(*waiting_.front(), used())) {
      EXPECT_TRUE(turn_) << "there is room, and nobody will come";
    }
    for (const Guest* guest : waiting_)
      EXPECT_GE(lane_.needed_for(guest->waiter), units_of(*guest));
    std::uint32_t of_returners = 1;
    for (std::size_t i = 0; i < returners_; ++i) {
      of_returners = std::max(of_returners, units_of(*waiting_[i]));
    }
    EXPECT_EQ(lane_.needed_to_return(1), of_returners);
  }

  std::mt19937_64 random_;
  LaneLimits limits_;
  Owner owner_;
  Lane lane_{owner_, "key", 0, limits_};
  std::vector<std::unique_ptr<Guest>> guests_;
  std::vector<Guest*> waiting_;  // in the order in which they must start
  std::vector<Guest*> running_;
  std::vector<Guest*> lent_;
  std::size_t returners_ = 0;  // of those who wait, in front
  bool turn_ = false;
  bool paused_ = false;
};

TEST(LaneRanks, DoWhatTheModelDoesInRandomOrders) {
  for (std::uint64_t seed = 0; seed < 20'000 && !HasFailure(); ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Checked(seed).run();
  }
}

TEST(LaneRanks, OneThatCostsMoreThanTheLimitTakesAllOfIt) {
  Owner owner;
  Lane lane(owner, "key", 0, {.running = 3});
  Guest small, large{.waiter = {}, .rank = {.cost = 10}};
  lane.enter(small.waiter);
  lane.enter_ranked(large.waiter);
  EXPECT_EQ(lane.take().waiter, &small.waiter);
  EXPECT_EQ(lane.counts().running, 1U);
  const LaneTake next = lane.finish(LaneOutcome::kSucceeded, /*go_on=*/true);
  EXPECT_EQ(next.waiter, &large.waiter);
  EXPECT_EQ(next.units, 3U);
  EXPECT_TRUE(lane.finish(LaneOutcome::kSucceeded, /*go_on=*/true, next.units).idle);
}

TEST(LaneRanks, NobodyOvertakesOneThatWaitsForAllItsPermits) {
  Owner owner;
  Lane lane(owner, "key", 0, {.running = 3});
  Guest first, second, costly{.waiter = {}, .rank = {.cost = 3}}, last;
  for (Guest* guest : {&first, &second}) lane.enter(guest->waiter);
  lane.enter_ranked(costly.waiter);
  lane.enter(last.waiter);
  EXPECT_EQ(lane.take().waiter, &first.waiter);
  EXPECT_EQ(lane.take().waiter, &second.waiter);
  EXPECT_EQ(lane.take().waiter, nullptr);
  EXPECT_FALSE(lane.finish(LaneOutcome::kSucceeded, false).post_turn)
      << "one of three is not enough";
  EXPECT_TRUE(lane.finish(LaneOutcome::kSucceeded, false).post_turn);
  EXPECT_EQ(lane.take().waiter, &costly.waiter);
  EXPECT_EQ(lane.finish(LaneOutcome::kSucceeded, true, 3).waiter, &last.waiter);
}

}  // namespace
}  // namespace keyway
