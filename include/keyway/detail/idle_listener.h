// How Keyway's own caches learn that a scheduler has had no work for a while, so that they can give memory back.
#pragma once

namespace keyway {

class IdleListener {
 public:
  // Called when the scheduler's threads have had nothing to run for a while.
  virtual void scheduler_is_idle() noexcept = 0;

 protected:
  ~IdleListener() = default;
};

}  // namespace keyway
