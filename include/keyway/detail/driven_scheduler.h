// A scheduler without threads: it runs one step per call, on the thread of the caller.
#pragma once

#include "keyway/scheduler.h"

namespace keyway {

class DrivenScheduler : public Scheduler {
 public:
  // Runs one step on the calling thread. False if there is nothing to run.
  virtual bool run_one() = 0;
  bool is_driven() const final { return true; }
  Scheduler* background() override { return nullptr; }
};

}  // namespace keyway
