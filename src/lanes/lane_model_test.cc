// The lane against a model of a few lines: every sequence of a few calls, and many long random
// ones.
#include <algorithm>
#include <cstdlib>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lanes/lane.h"

namespace keyway {
namespace {

struct NoOwner final : LaneOwner {
  void run_turn(Lane&, Turn&) override {}
};

enum class Call {
  kEnter,
  kTake,
  kFinish,
  kFinishAndGoOn,
  kWithdrawFirst,
  kWithdrawLast,
  kDrain,
  kLimitOne,
  kLimitTwo,
  kLimitThree,
  kGiveBack,
  kComeBack,
  kPause,
  kResume,
};
constexpr Call kCalls[] = {Call::kEnter,         Call::kTake,          Call::kFinish,
                           Call::kFinishAndGoOn, Call::kWithdrawFirst, Call::kWithdrawLast,
                           Call::kDrain,         Call::kLimitOne,      Call::kLimitTwo,
                           Call::kLimitThree,    Call::kGiveBack,      Call::kComeBack,
                           Call::kPause,         Call::kResume};
constexpr const char* kCallNames[] = {
    "enter",   "take",    "finish",  "finish+go on", "withdraw first", "withdraw last", "drain",
    "limit 1", "limit 2", "limit 3", "give back",    "come back",      "pause",         "resume"};

// A lane and what it should be: who waits, who runs, whether its turn is out. Each call is done to
// both, and what the lane says is compared with what the model expects.
class Checked {
 public:
  explicit Checked(LaneLimits limits) : limits_(limits), lane_(owner_, "key", 1, limits) {}

  // False if the call makes no sense now.
  bool do_call(Call call) {
    if (!possible(call)) return false;
    history_ += std::string(history_.empty() ? "" : ", ") + kCallNames[static_cast<int>(call)];
    SCOPED_TRACE(history_);
    apply(call);
    check();
    return true;
  }

 private:
  bool possible(Call call) const {
    switch (call) {
      case Call::kTake:
        return turn_posted_;
      case Call::kFinish:
      case Call::kFinishAndGoOn:
        return !running_.empty();
      case Call::kDrain:
        return !waiting_.empty();
      case Call::kWithdrawFirst:  // who comes back does not leave
        return !waiting_.empty() && returners_ == 0;
      case Call::kWithdrawLast:
        return waiting_.size() > 1 + returners_;
      case Call::kLimitOne:
      case Call::kLimitTwo:
      case Call::kLimitThree:
        return limits_.running != limit_of(call);
      case Call::kGiveBack:
        return !running_.empty();
      case Call::kComeBack:
        return !lent_.empty();
      case Call::kPause:
      case Call::kResume:
        return paused_ != (call == Call::kPause);
      default:
        return true;
    }
  }
  static std::uint32_t limit_of(Call call) {
    return 1U + static_cast<std::uint32_t>(call) - static_cast<std::uint32_t>(Call::kLimitOne);
  }

  void apply(Call call) {
    switch (call) {
      case Call::kEnter:
        return enter();
      case Call::kTake:
        turn_posted_ = false;
        return taken(lane_.take(), /*had_permit=*/false);
      case Call::kFinish:
      case Call::kFinishAndGoOn:
        return finish(call == Call::kFinishAndGoOn);
      case Call::kWithdrawFirst:
        return withdraw(waiting_.begin());
      case Call::kWithdrawLast:
        return withdraw(std::prev(waiting_.end()));
      case Call::kDrain:
        return drain();
      case Call::kLimitOne:
      case Call::kLimitTwo:
      case Call::kLimitThree:
        limits_.running = limit_of(call);
        return post(lane_.set_limits(limits_).post_turn);
      case Call::kGiveBack:
        return give_back();
      case Call::kComeBack:
        return come_back();
      case Call::kPause:
      case Call::kResume:
        paused_ = call == Call::kPause;
        return post(lane_.set_paused(paused_));
    }
  }

  // How many may run now: none of a paused lane, but for those who come back.
  std::uint32_t limit() const { return paused_ && returners_ == 0 ? 0 : limits_.running; }

  void enter() {
    Waiter& waiter = *waiters_.emplace_back(std::make_unique<Waiter>());
    const std::uint64_t room = limit() > running_.size() ? limit() - running_.size() : 0;
    const bool full = limits_.waiting != kNoLimit && waiting_.size() >= room + limits_.waiting;
    const Lane::Entered entered = lane_.enter(waiter);
    EXPECT_EQ(entered == Lane::Entered::kFull, full);
    EXPECT_NE(entered, Lane::Entered::kClosed);
    if (entered == Lane::Entered::kFull) {
      return;
    }
    ++expected_.entered;
    waiting_.push_back(&waiter);
    post(entered == Lane::Entered::kNeedsTurn);
  }

  void finish(bool go_on) {
    running_.pop_front();
    const LaneOutcome outcome = kOutcomes[finished_++ % 3];
    count(outcome);
    // Whoever gives a permit back when there are too many cannot go on with it.
    const bool may_go_on = go_on && running_.size() < limit();
    const LaneTake take = lane_.finish(outcome, go_on);
    if (!may_go_on) {
      EXPECT_EQ(take.waiter, nullptr);
    }
    taken(take, /*had_permit=*/true);
  }

  void count(LaneOutcome outcome) {
    if (outcome == LaneOutcome::kSucceeded) ++expected_.succeeded;
    if (outcome == LaneOutcome::kFailed) ++expected_.failed;
    if (outcome == LaneOutcome::kCancelled) ++expected_.cancelled;
  }

  void taken(const LaneTake& take, bool had_permit) {
    if (take.waiter != nullptr) {
      EXPECT_LT(running_.size(), limit()) << "more than the limit";
      ASSERT_FALSE(waiting_.empty());
      EXPECT_EQ(take.waiter, waiting_.front()) << "out of order";
      EXPECT_EQ(take.number, ++started_);
      running_.push_back(waiting_.front());
      waiting_.pop_front();
      if (returners_ > 0) --returners_;
      EXPECT_FALSE(take.idle);
    } else if (!had_permit && running_.size() < limit()) {
      EXPECT_TRUE(waiting_.empty()) << "there was room, and somebody waited";
    }
    post(take.post_turn);
    // Somebody must say so when nobody is left, or the lane is never freed.
    if (running_.empty() && waiting_.empty() && !turn_posted_ && !paused_) {
      EXPECT_TRUE(take.idle);
    }
    if (take.idle) {
      EXPECT_TRUE(running_.empty());
    }
  }

  void withdraw(std::deque<Waiter*>::iterator place) {
    Waiter& waiter = **place;
    EXPECT_TRUE(lane_.withdraw(waiter));
    EXPECT_FALSE(lane_.withdraw(waiter)) << "it left before";
    ++expected_.cancelled;
    waiting_.erase(place);
  }

  void drain() {
    Waiter* waiter = lane_.drain();
    for (const Waiter* expected : waiting_) {
      ASSERT_EQ(waiter, expected);
      waiter = waiter->next;
      ++expected_.drained;
    }
    EXPECT_EQ(waiter, nullptr);
    waiting_.clear();
    returners_ = 0;
    if (started_ > 0) {
      EXPECT_TRUE(lane_.stop_wanted(started_));
    }
    EXPECT_FALSE(lane_.stop_wanted(started_ + 1));
  }

  void give_back() {
    lent_.push_back(running_.front());
    running_.pop_front();
    post(lane_.give_back());
  }

  void come_back() {
    Waiter& waiter = *lent_.front();
    waiting_.insert(waiting_.begin() + static_cast<std::ptrdiff_t>(returners_), &waiter);
    lent_.pop_front();
    ++returners_;
    post(lane_.enter_again(waiter) == Lane::Entered::kNeedsTurn);
  }

  void post(bool needs_turn) {
    if (!needs_turn) return;
    EXPECT_FALSE(turn_posted_) << "there is a second turn";
    turn_posted_ = true;
  }

  void check() {
    const LaneCounts counts = lane_.counts();
    EXPECT_EQ(counts.running, running_.size());
    EXPECT_EQ(counts.waiting, waiting_.size());
    EXPECT_EQ(counts.entered, expected_.entered);
    EXPECT_EQ(counts.drained, expected_.drained);
    EXPECT_EQ(counts.cancelled, expected_.cancelled);
    EXPECT_EQ(counts.succeeded, expected_.succeeded);
    EXPECT_EQ(counts.failed, expected_.failed);
    if (!waiting_.empty() && running_.size() < limit()) {
      EXPECT_TRUE(turn_posted_) << "somebody waits, there is room, and nobody will come";
    }
    const bool empty = running_.empty() && waiting_.empty() && lent_.empty();
    EXPECT_EQ(lane_.empty(), empty);
    if (!empty) {
      EXPECT_FALSE(lane_.idle());
    }
    if (empty && !turn_posted_) {
      EXPECT_TRUE(lane_.idle());
    }
    const std::size_t room =
        running_.size() >= limits_.running ? 0 : limits_.running - running_.size();
    const std::size_t able = paused_ ? returners_ : waiting_.size();
    EXPECT_EQ(lane_.could_run(), running_.size() + std::min(room, able));
    for (const Waiter* waiter : waiting_) EXPECT_EQ(lane_.needed_for(*waiter), 1U);
    for (const Waiter* waiter : running_) EXPECT_EQ(lane_.needed_for(*waiter), 0U);
  }

  static constexpr LaneOutcome kOutcomes[] = {LaneOutcome::kSucceeded, LaneOutcome::kFailed,
                                              LaneOutcome::kCancelled};

  NoOwner owner_;
  LaneLimits limits_;
  Lane lane_;
  std::string history_;

  std::vector<std::unique_ptr<Waiter>> waiters_;
  std::deque<Waiter*> waiting_;
  std::deque<Waiter*> running_;
  std::deque<Waiter*> lent_;  // gave their permit back, and will come again
  bool turn_posted_ = false;
  bool paused_ = false;
  std::size_t returners_ = 0;  // of those who wait, in front
  std::uint64_t started_ = 0;
  std::uint64_t finished_ = 0;
  LaneCounts expected_;
};

// Every sequence of `depth` calls that makes sense, from the one given on.
void try_all(LaneLimits limits, std::vector<Call>& calls, std::size_t depth, int& tried) {
  for (const Call call : kCalls) {
    Checked lane(limits);
    for (const Call before : calls) lane.do_call(before);
    if (!lane.do_call(call)) continue;
    ++tried;
    if (depth == 1) continue;
    calls.push_back(call);
    try_all(limits, calls, depth - 1, tried);
    calls.pop_back();
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(LaneModel, EveryShortSequenceOfCallsKeepsLimitOrderAndTurn) {
  int tried = 0;
  for (const std::uint32_t limit : {1, 2}) {
    for (const std::uint32_t waiting : {kNoLimit, 1U}) {
      std::vector<Call> calls;
      try_all({.running = limit, .waiting = waiting}, calls, 7, tried);
    }
  }
  EXPECT_GT(tried, 100'000);
}

TEST(LaneModel, LongRandomSequencesOfCallsKeepLimitOrderAndTurn) {
  const char* given = std::getenv("KEYWAY_SEED");
  const std::uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
  const std::uint64_t last = given != nullptr ? first : 2000;
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    SCOPED_TRACE("KEYWAY_SEED=" + std::to_string(seed));
    std::mt19937_64 random(seed);
    Checked lane(
        {.running = 1 + static_cast<std::uint32_t>(random() % 3),
         .waiting = random() % 2 == 0 ? kNoLimit : static_cast<std::uint32_t>(random() % 4)});
    for (int step = 0; step < 100; ++step) {
      // Half of the calls enter, so that the lane is not empty most of the time.
      lane.do_call(random() % 2 == 0 ? Call::kEnter : kCalls[random() % std::size(kCalls)]);
    }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace keyway
