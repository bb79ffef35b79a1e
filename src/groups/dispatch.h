// Decides for a worker that has a lane's turn whether it may take a task now: not while everything is paused, while the
// group has no token of its rate, or while the global limit is reached. A turn that may not go on is kept here, with
// no permit, and posted when it may.
//
// Thread safety: every method from any thread. What must happen outside of its locks goes into the caller's Aftermath.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>

#include "base/mutex.h"
#include "groups/aftermath.h"
#include "groups/global_gate.h"
#include "groups/group_state.h"
#include "lanes/lane_table.h"

namespace keyway {

class Dispatch {
 public:
  // `shares`: lanes have a GroupState, by which the gate serves them.
  Dispatch(const GroupPolicy& policy, Scheduler& scheduler, LaneTable& table, bool shares);

  // REQUIRES: the caller has the lane's turn. kNo: the turn is kept. Otherwise the caller may take a task, and holds a
  // global permit for it, and perhaps a token of the group's rate.
  enum class Admitted { kNo, kYes, kWithToken };
  Admitted admit(Lane& lane, GroupState* state, Aftermath& aftermath) {
    // acquire: pairs with resume(); what was written before that is seen by the tasks that start.
    if (paused_.load(std::memory_order_acquire) && hold(lane, aftermath)) [[unlikely]]
      return Admitted::kNo;
    if (state != nullptr && state->tokens) [[unlikely]]
      return admit_rated(lane, *state, aftermath);
    return gate_ == nullptr || enter_gate(lane) ? Admitted::kYes : Admitted::kNo;
  }
  // The token was not needed: the task comes back from a wait, or there was none.
  void give_token_back(Lane& lane, Aftermath& aftermath) KEYWAY_EXCLUDES(mutex_);

  // Gives a global permit of `lane` back. The lane may be gone, unless the gate looks at shares.
  void leave_gate(Lane& lane, Aftermath& aftermath) {
    if (gate_ != nullptr) pass_permit_on(lane, aftermath);
  }
  // Asks for a global permit before all lanes do. True: it is there. False: go_on() will be called.
  bool enter_gate_again(GlobalGate::Returner& returner) { return gate_->enter_again(returner); }
  bool has_gate() const { return gate_ != nullptr; }
  // Whether a worker should let others have their turn after each task.
  bool contended() const {
    return (gate_ != nullptr && gate_->contended()) || paused_.load(std::memory_order_acquire);
  }
  GlobalGate::Use gate_use() { return gate_->use(); }
  void set_global_limit(std::uint32_t limit, Aftermath& aftermath);
  // With shares, a lane stays as long as it has a global permit.
  void pin_for_gate(Lane& lane) {
    if (shares_) table_.pin(lane);
  }

  void pause() KEYWAY_EXCLUDES(mutex_);
  void resume(Aftermath& aftermath) KEYWAY_EXCLUDES(mutex_);
  bool paused() const { return paused_.load(std::memory_order_acquire); }

  // A task that began before stands in front of the lane again: its turn is not kept for a pause or for tokens.
  void task_returned(Lane& lane, Aftermath& aftermath) KEYWAY_EXCLUDES(mutex_);

  void tokens_came(Lane& lane) KEYWAY_EXCLUDES(mutex_);
  // If the lane waits for a token: when it comes.
  std::optional<Duration> tokens_come_in(Lane& lane) KEYWAY_EXCLUDES(mutex_);
  // From now on nothing waits for tokens.
  void end_rates(Aftermath& aftermath) KEYWAY_EXCLUDES(mutex_);

 private:
  void pass_permit_on(Lane& lane, Aftermath& aftermath);
  bool enter_gate(Lane& lane) {
    if (!gate_->enter(lane)) return false;
    pin_for_gate(lane);
    return true;
  }
  Admitted admit_rated(Lane& lane, GroupState& state, Aftermath& aftermath) KEYWAY_EXCLUDES(mutex_);
  bool hold(Lane& lane, Aftermath& aftermath) KEYWAY_EXCLUDES(mutex_);
  bool park(Lane& lane, GroupState& state, Aftermath& aftermath) KEYWAY_EXCLUDES(mutex_);
  void unpark(Lane& lane, Aftermath& aftermath) KEYWAY_EXCLUDES(mutex_);
  bool take_served_permit(Lane& lane) KEYWAY_REQUIRES(mutex_);

  // Constant after construction.
  Scheduler& scheduler_;
  LaneTable& table_;
  const bool shares_;
  const std::unique_ptr<GlobalGate> gate_;  // null: no global limit

  detail::Atomic<bool> paused_{false};  // written under mutex_
  Mutex<LockRank::kDispatch> mutex_;
  // Turns kept by a pause, in the order they came.
  std::list<Lane*> held_ KEYWAY_GUARDED_BY(mutex_);
  std::unordered_map<Lane*, std::list<Lane*>::iterator> held_at_ KEYWAY_GUARDED_BY(mutex_);
  // Turns that wait for a token.
  std::set<Lane*> parked_ KEYWAY_GUARDED_BY(mutex_);
  bool no_more_rates_ KEYWAY_GUARDED_BY(mutex_) = false;
};

}  // namespace keyway
