#include "process/process.h"

#include <csignal>

namespace keyway {

void ProcessEnding::begin(Duration grace) {
  if (begun_) return;
  begun_ = true;
  process_.kill_group_at_exit();
  process_.send_signal(SIGTERM);
  // A stopped process would not see the end of it.
  process_.send_signal(SIGCONT);
  scheduler_.add_timer(*this, scheduler_.now() + grace);
}

void ProcessEnding::kill() {
  begun_ = true;
  process_.kill_group_at_exit();
  process_.send_signal(SIGKILL);
}

void ProcessWait::exited(ProcessExit exit) {
  exit_ = std::move(exit);
  exited_ = true;
  if (coroutine_) resumption_.post(std::exchange(coroutine_, nullptr), *context_);
}

}  // namespace keyway
