// The waits of one task for others, and the permits it has given back meanwhile.
//
// Thread safety: every method from any thread.
// Lifetime: in GroupEngine::waits_, from the first wait until the task has its permits again.
#pragma once

#include <vector>

#include "groups/global_gate.h"
#include "keyway/detail/task_core.h"

namespace keyway {

class GroupEngine;

class TaskWaits final : private GlobalGate::Returner {
 public:
  // While it lives its task may be in no lane: it counts as a use of the engine.
  TaskWaits(GroupEngine& engine, detail::TaskCore& waiter);
  ~TaskWaits();
  TaskWaits(const TaskWaits&) = delete;
  TaskWaits& operator=(const TaskWaits&) = delete;

  // One more wait begins. REQUIRES: the caller holds the engine's waits_mutex_, and afterwards,
  // without it, posts the lane and leaves the gate as it is told.
  struct GivenBack {
    Lane* lane_to_post = nullptr;
    Lane* gate_lane = nullptr;  // whose global permit it was
    bool keeps_lane = true;
  };
  GivenBack begin(detail::TaskCore& target, bool target_is_away);
  // The same for one that waits for nobody.
  GivenBack begin_rest();
  // The lane's permit goes back in the middle of a wait. REQUIRES: as begin(). Gives the lane to post.
  Lane* give_back_lane();
  bool lane_given_back() const { return lane_given_back_; }  // REQUIRES: as begin()

  // One wait is over: `wakeup` is woken when none is left and the permits are back. One that was refused does
  // not wait for the others, which may need what comes after it.
  void end(detail::Wakeup& wakeup, bool refused = false);

  // Called when the task's turn in its lane has come again.
  void came_back(Lane& lane, std::uint32_t units);

 private:
  void go_on() override;
  Lane& gate_lane() override { return *gate_lane_; }
  GivenBack give_back_gate();
  // While it waits and only its lane's permit is held, it is not one of those that could run.
  void count_again();

  GroupEngine& engine_;
  detail::TaskCore& waiter_;

  // Guarded by the engine's waits_mutex_.
  int open_ = 0;
  bool lane_given_back_ = false;
  bool gate_given_back_ = false;
  bool returning_ = false;
  Lane* gate_lane_ = nullptr;  // for which it asks the gate
  bool uncounted_ = false;
  std::vector<detail::Wakeup*> over_;
};

}  // namespace keyway
