#include "groups/endings.h"

#include <utility>

namespace keyway {

void Endings::tell(std::vector<Ending> endings) {
  if (endings.empty()) return;
  if (endings.size() == 1) return teller_.tell(endings.front());
  {
    MutexLock lock(mutex_);
    for (Ending& ending : endings) endings_.push_back(std::move(ending));
  }
  while (true) {
    Ending ending = next();
    if (ending.task == nullptr) return;
    teller_.tell(ending);
  }
}

void Endings::tell_later(Ending ending) {
  {
    MutexLock lock(mutex_);
    endings_.push_back(std::move(ending));
  }
  post_if_needed();
}

Ending Endings::next() {
  Ending ending;
  {
    MutexLock lock(mutex_);
    if (endings_.empty()) return ending;
    ending = std::move(endings_.front());
    endings_.pop_front();
  }
  post_if_needed();
  return ending;
}

void Endings::post_if_needed() {
  {
    MutexLock lock(mutex_);
    if (posted_ || endings_.empty()) return;
    posted_ = true;
  }
  teller_.begin_use();
  scheduler_.post(*this);
}

void Endings::run(Turn&) {
  {
    MutexLock lock(mutex_);
    posted_ = false;
  }
  Ending ending = next();
  if (ending.task != nullptr) teller_.tell(ending);
  teller_.end_use();
}

}  // namespace keyway
