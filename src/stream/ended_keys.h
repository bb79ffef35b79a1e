// The keys in which a task has ended while records of some keys were set aside: the pump tries to dispatch records of
// these keys, and of no others.
//
// A key is its group's hash. The pump watches a key before it sets a record of it aside:
//
//   pump   watch(key); then the executor refuses the record; set it aside
//   task   gives its permit back; then ended(key); then wakes the pump
//
// The refusal and the return of the permit hold the lock of the key's lane. If the refusal comes first, the task sees that the
// key is watched. If the permit comes first, the record is not refused. So no end is lost.
//
// Memory: 8 bytes for each task that has ended, and for each call of resume_key(), since the last take().
//
// Thread safety: ended() from any thread; the rest by the pump.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "keyway/detail/atomic.h"

namespace keyway {

class EndedKeys {
 public:
  // True if the key was not watched: its tasks may have ended unnoticed before this call.
  bool watch(std::size_t key) {
    const std::uint64_t watched = watched_.load();
    if ((watched & bit_of(key)) != 0) return false;
    watched_.store(watched | bit_of(key));
    return true;
  }
  // To be called when no record is set aside.
  void watch_none() KEYWAY_EXCLUDES(mutex_) {
    if (watched_.load() == 0) return;
    watched_.store(0);
    MutexLock lock(mutex_);
    ended_.clear();
  }

  // A task of the key has given its permit back, or the key was resumed.
  void ended(std::size_t key) KEYWAY_EXCLUDES(mutex_) {
    if ((watched_.load() & bit_of(key)) == 0) return;
    MutexLock lock(mutex_);
    ended_.push_back(key);
  }

  // Each key once, in the order of the first end, so that seeds replay: the hashes differ from process to process.
  std::vector<std::size_t> take() KEYWAY_EXCLUDES(mutex_) {
    std::vector<std::size_t> keys;
    {
      MutexLock lock(mutex_);
      keys.swap(ended_);
    }
    std::unordered_set<std::size_t> seen;
    std::erase_if(keys, [&](std::size_t key) { return !seen.insert(key).second; });
    return keys;
  }

 private:
  static std::uint64_t bit_of(std::size_t key) { return std::uint64_t{1} << (key % 64); }

  // Keys share bits. Every task reads this when it ends, and while few keys are watched, most tasks do nothing else.
  detail::Atomic<std::uint64_t> watched_{0};
  alignas(64) Mutex<> mutex_;
  std::vector<std::size_t> ended_ KEYWAY_GUARDED_BY(mutex_);
};

}  // namespace keyway
