// Layer 1: how many tasks of all groups may run at once.
//
// Lanes come here with their turn before they take a waiter. One that finds no permit stands in line
// and keeps its turn; a permit that comes free goes to the first in line. So the order in which lanes
// came is kept, and round robin with it; or that of their oldest tasks; or what the groups were promised: see GateLine.
//
// By shares, a lane that was served, or had no room in its own limit and has some again, is *coming* until turn_over() or until
// it has come. Meanwhile lanes with a later place
// stand in line even if permits are free, because the turns of a lane come one after another: otherwise the lanes would
// take turns, whatever their weights. A permit stays free only while a lane is coming, and each coming lane calls
// enter() or turn_over(), which serve the lanes in line.
//
// A lane that is served has a permit before its turn runs, and its turn needs a thread. All threads may be blocked by tasks
// that wait for a permit to return, so a returner takes the permit of a served lane whose turn has not run. The first such
// lane whose turn runs finds the permit gone, and stands in line again, in front.
//
// Thread safety: every method from any thread.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "base/spin_lock.h"
#include "groups/aftermath.h"
#include "groups/gate_line.h"
#include "keyway/detail/atomic.h"
#include "lanes/lane.h"

namespace keyway {

class GlobalGate {
 public:
  // A task that gave its global permit back for a wait, and needs one again.
  class Returner {
   public:
    // The returner has a permit. Called under no lock.
    virtual void go_on(Aftermath& aftermath) = 0;
    virtual Lane& gate_lane() = 0;

   protected:
    ~Returner() = default;
  };

  // By shares: every lane has a GroupState, and is not freed while it has a permit or is coming.
  GlobalGate(std::uint32_t limit, GateOrder order)
      : order_(order), shares_(order == GateOrder::kShares), limit_(limit), line_(order) {}

  // True: the lane has a permit. False: it stands in line, and will come out of leave().
  // REQUIRES: the caller has the lane's turn, and lanes are not served by shares.
  bool enter(Lane& lane) KEYWAY_EXCLUDES(lock_);
  // The same by shares. `served`: lanes in line that got permits, too; the caller posts them. If the lane has a permit, it
  // is coming from now on: after the caller has taken from it, it posts the turn again or calls turn_over().
  using Lanes = std::vector<Lane*>;
  bool enter_by_shares(Lane& lane, Lanes& served) KEYWAY_EXCLUDES(lock_);
  // By shares: the turn of the lane is over, or is kept elsewhere. The lane is not coming any more, and lanes that stood in
  // line behind it may get permits. May be called late, when the lane has come with its next turn.
  // REQUIRES: the lane is not freed.
  void turn_over(Lane& lane, Lanes& served) KEYWAY_EXCLUDES(lock_);

  // Gives a permit of `lane` back. If it goes to another lane, the caller posts that lane; if it
  // goes to a returner, the caller calls go_on(). `has_turn`: the caller also posts the turn of `lane`. By shares the lane is
  // coming from now on.
  struct Next {
    Lane* lane = nullptr;
    Returner* returner = nullptr;
  };
  [[nodiscard]] Next leave(Lane& lane, bool has_turn = false) KEYWAY_EXCLUDES(lock_);

  // Asks for a permit, ahead of all lanes. True: `returner` has it. False: leave() or set_limit()
  // will return it.
  bool enter_again(Returner& returner) KEYWAY_EXCLUDES(lock_);

  // For a lane that was served and does not use its permit. True: it has the permit, and the caller gives it back by
  // leave(). False: it was not served, or a returner has taken the permit.
  // REQUIRES: the caller has the lane's turn.
  bool claim_unused(Lane& lane) KEYWAY_EXCLUDES(lock_);

  // A higher limit applies at once, a lower one as tasks end. Returns the lanes and returners that
  // got a permit.
  struct Served {
    Lanes lanes;
    std::vector<Returner*> returners;
  };
  [[nodiscard]] Served set_limit(std::uint32_t limit) KEYWAY_EXCLUDES(lock_);

  // Whether a worker with a permit should give it back after its task: others stand in line for it, or
  // more are out than the limit allows by now. relaxed: a hint.
  bool contended() const {
    return in_line_.load(std::memory_order_relaxed) > 0 || over_.load(std::memory_order_relaxed);
  }

  struct Use {
    std::uint32_t limit = 0;
    std::uint32_t in_flight = 0;
    std::uint32_t in_line = 0;
  };
  Use use() KEYWAY_EXCLUDES(lock_) {
    SpinGuard guard(lock_);
    return {limit_, in_flight_, in_line_.load(std::memory_order_relaxed)};
  }

 private:
  void give(Lane& lane) KEYWAY_REQUIRES(lock_) {
    ++in_flight_;
    if (shares_) count(lane, +1);
  }
  void take_back(Lane& lane) KEYWAY_REQUIRES(lock_) {
    --in_flight_;
    if (shares_) count(lane, -1);
  }
  void count(Lane& lane, int change) KEYWAY_REQUIRES(lock_) {
    GroupState::of(lane).permits += static_cast<std::uint32_t>(change);
    line_.permits_changed(lane);
  }
  bool enter_or_stand_in_line(Lane& lane, std::int64_t age) KEYWAY_REQUIRES(lock_);
  // The turn of a lane that was served.
  bool enter_served(Lane& lane) KEYWAY_REQUIRES(lock_);
  bool can_serve() const KEYWAY_REQUIRES(lock_) {
    return in_flight_ < limit_ && !line_.empty() && line_.can_serve();
  }
  Lane& serve_first() KEYWAY_REQUIRES(lock_);
  void serve_lanes(Lanes& served) KEYWAY_REQUIRES(lock_) {
    while (can_serve()) served.push_back(&serve_first());
  }
  // The turn of a served lane runs. True: the lane has its permit. False: a returner has taken it.
  bool claim(Lane& lane) KEYWAY_REQUIRES(lock_);
  Returner& serve_returner() KEYWAY_REQUIRES(lock_);

  const GateOrder order_;
  const bool shares_;
  detail::Atomic<std::uint32_t> in_line_{0};
  detail::Atomic<bool> over_{false};

  SpinLock<LockRank::kGlobalGate> lock_;
  std::uint32_t limit_ KEYWAY_GUARDED_BY(lock_);
  std::uint32_t in_flight_ KEYWAY_GUARDED_BY(lock_) = 0;
  std::uint32_t served_ KEYWAY_GUARDED_BY(lock_) = 0;  // lanes whose turns have not run
  std::uint32_t taken_ KEYWAY_GUARDED_BY(lock_) = 0;  // of their permits, those that returners took
  std::deque<Returner*> returners_ KEYWAY_GUARDED_BY(lock_);
  GateLine line_ KEYWAY_GUARDED_BY(lock_);
};

}  // namespace keyway
