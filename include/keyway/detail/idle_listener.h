// Tells Keyway's own caches that a scheduler has had no work for a while, so that they release
// memory.
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
