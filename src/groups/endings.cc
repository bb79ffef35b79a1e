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
  tell_added();
}

void Endings::add(std::vector<Ending> endings) {
  {
    MutexLock lock(mutex_);
    for (Ending& ending : endings) endings_.push_back(std::move(ending));
  }
  post_if_needed(sure_helper());
}

void Endings::tell_added() {
  while (true) {
    Ending ending = next(sure_helper());
    if (ending.task == nullptr) return;
    teller_.tell(ending);
  }
}

void Endings::tell_later(Ending ending) {
  {
    MutexLock lock(mutex_);
    endings_.push_back(std::move(ending));
  }
  post_if_needed(on_scheduler_);
  if (scheduler_.background() != nullptr) post_if_needed(in_background_);
}

Ending Endings::next(Helper& helper) {
  Ending ending;
  {
    MutexLock lock(mutex_);
    if (endings_.empty()) return ending;
    ending = std::move(endings_.front());
    endings_.pop_front();
  }
  post_if_needed(helper);
  return ending;
}

void Endings::post_if_needed(Helper& helper) {
  {
    MutexLock lock(mutex_);
    if (helper.posted || endings_.empty()) return;
    helper.posted = true;
  }
  teller_.begin_use();
  (&helper == &on_scheduler_ ? scheduler_ : *scheduler_.background()).post(helper);
}

void Endings::help(Helper& helper) {
  {
    MutexLock lock(mutex_);
    helper.posted = false;
  }
  Ending ending = next(helper);
  teller_.tell_posted(ending);
}

}  // namespace keyway
