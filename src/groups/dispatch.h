// Decides whether a worker with a lane's turn may take a task: not while the executor is paused,
// the group has no token of its rate, or the global limit is reached. Dispatch keeps such a turn,
// without a permit, and posts it when a worker may take a task.
//
// Thread safety: every method from any thread. Posts go into the caller's Aftermath, outside of the
// locks.
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
  // `shares`: every lane has a GroupState, and the gate serves lanes by their shares.
  Dispatch(const GroupPolicy& policy, Scheduler& scheduler, LaneTable& table, bool shares);

  // kNo: Dispatch keeps the turn. Otherwise the caller may take a task; it holds a global permit,
  // if there is a global limit, and with kWithToken a token of the group's rate.
  // REQUIRES: the caller has the lane's turn.
  enum class Admitted { kNo, kYes, kWithToken };
  Admitted admit(Lane& lane, GroupState* state, Aftermath& aftermath) {
    // acquire: pairs with resume(), so that tasks see what was written before it.
    if (paused_.load(std::memory_order_acquire) && hold(lane, aftermath)) [[unlikely]]
      return Admitted::kNo;
    if (state != nullptr && state->tokens) [[unlikely]]
      return admit_rated(lane, *state, aftermath);
    return gate_ == nullptr || enter_gate(lane, aftermath) ? Admitted::kYes : Admitted::kNo;
  }
  // For a token that was not needed: the worker took a task that returns from a wait, or found no
  // task.
  void give_token_back(Lane& lane, Aftermath& aftermath) KEYWAY_EXCLUDES(mutex_);

  // After kYes: no task was taken, or the turn was not posted again.
  void turn_over(Lane& lane, Aftermath& aftermath) {
    if (shares_) [[unlikely]]
      leave_to_others(lane, aftermath);
  }
  // Gives a global permit of `lane` back. Without shares, the lane may be freed already. `has_turn`: the caller also posts the
  // lane's turn.
  void leave_gate(Lane& lane, Aftermath& aftermath, bool has_turn = false) {
    if (gate_ != nullptr) pass_permit_on(lane, has_turn, aftermath);
  }
  // Asks for a global permit, ahead of all lanes. True: `returner` has it. False: the gate calls
  // go_on() later.
  bool enter_gate_again(GlobalGate::Returner& returner) { return gate_->enter_again(returner); }
  bool has_gate() const { return gate_ != nullptr; }
  bool by_shares() const { return shares_; }
  // Whether a worker should end its turn after each task.
  bool contended() const {
    return (gate_ != nullptr && gate_->contended()) || paused_.load(std::memory_order_acquire);
  }
  GlobalGate::Use gate_use() { return gate_->use(); }
  // In two steps: tell() is to be called under no lock.
  [[nodiscard]] GlobalGate::Served set_global_limit(std::uint32_t limit);
  static void tell(const GlobalGate::Served& served, Aftermath& aftermath);
  // With shares, pins the lane while it has a global permit.
  void pin_for_gate(Lane& lane) {
    if (shares_) table_.pin(lane);
  }

  void pause() KEYWAY_EXCLUDES(mutex_);
  void resume(Aftermath& aftermath) KEYWAY_EXCLUDES(mutex_);
  // For shutdown(): a task that still runs could pause again, and held turns would never end.
  void end_pauses(Aftermath& aftermath) KEYWAY_EXCLUDES(mutex_);
  bool paused() const { return paused_.load(std::memory_order_acquire); }

  // A task that returns from a wait has entered the lane: a pause or a rate does not hold its turn.
  void task_returned(Lane& lane, Aftermath& aftermath) KEYWAY_EXCLUDES(mutex_);

  void tokens_came(Lane& lane) KEYWAY_EXCLUDES(mutex_);
  // The time until the lane's next token; nullopt if the lane does not wait for one.
  std::optional<Duration> tokens_come_in(Lane& lane) KEYWAY_EXCLUDES(mutex_);
  // Posts the lanes that wait for tokens. From now on no lane waits for one.
  void end_rates(Aftermath& aftermath) KEYWAY_EXCLUDES(mutex_);

 private:
  void pass_permit_on(Lane& lane, bool has_turn, Aftermath& aftermath);
  bool enter_gate(Lane& lane, Aftermath& aftermath) {
    return shares_ ? enter_by_shares(lane, aftermath) : gate_->enter(lane);
  }
  bool enter_by_shares(Lane& lane, Aftermath& aftermath);
  void leave_to_others(Lane& lane, Aftermath& aftermath);
  Admitted admit_rated(Lane& lane, GroupState& state, Aftermath& aftermath) KEYWAY_EXCLUDES(mutex_);
  bool hold(Lane& lane, Aftermath& aftermath) KEYWAY_EXCLUDES(mutex_);
  bool park(Lane& lane, GroupState& state, Aftermath& aftermath) KEYWAY_EXCLUDES(mutex_);
  void unpark(Lane& lane, Aftermath& aftermath) KEYWAY_EXCLUDES(mutex_);
  bool take_served_permit(Lane& lane, Aftermath& aftermath) KEYWAY_REQUIRES(mutex_);

  // Constant after construction.
  Scheduler& scheduler_;
  LaneTable& table_;
  const bool shares_;
  const std::unique_ptr<GlobalGate> gate_;  // null: no global limit

  detail::Atomic<bool> paused_{false};  // written under mutex_
  Mutex<LockRank::kDispatch> mutex_;
  // Turns held by a pause, in the order of arrival.
  std::list<Lane*> held_ KEYWAY_GUARDED_BY(mutex_);
  std::unordered_map<Lane*, std::list<Lane*>::iterator> held_at_ KEYWAY_GUARDED_BY(mutex_);
  // Turns that wait for a token.
  std::set<Lane*> parked_ KEYWAY_GUARDED_BY(mutex_);
  bool no_more_pauses_ KEYWAY_GUARDED_BY(mutex_) = false;
  bool no_more_rates_ KEYWAY_GUARDED_BY(mutex_) = false;
};

}  // namespace keyway
