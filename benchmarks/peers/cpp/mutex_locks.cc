// Lock peers that the standard library suffices for: striped mutexes and maps of mutexes.
#include <array>
#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <unordered_map>

#include "lock_main.h"

namespace {

// A fixed number of mutexes, chosen by the key's hash. Two keys may share one: then they exclude
// each other, and whoever wants both at once hangs. A cache line each.
template <std::size_t kStripes>
class StripedMutexes {
 public:
  static constexpr const char* kName = kStripes == 64 ? "striped_64" : "striped_1024";

  template <class Section>
  void with_lock(const std::string& key, Section section) {
    const std::lock_guard lock(stripes_[std::hash<std::string>()(key) % kStripes].mutex);
    section();
  }

 private:
  struct alignas(64) Stripe {
    std::mutex mutex;
  };
  std::array<Stripe, kStripes> stripes_;
};

// A mutex per key that is kept for ever. The map's nodes do not move, so the mutex lies in one.
class MutexMap {
 public:
  static constexpr const char* kName = "mutex_map";

  template <class Section>
  void with_lock(const std::string& key, Section section) {
    const std::lock_guard lock(mutex_of(key));
    section();
  }

 private:
  std::mutex& mutex_of(const std::string& key) {
    const std::lock_guard lock(mutex_);
    return mutexes_[key];
  }

  std::mutex mutex_;
  std::unordered_map<std::string, std::mutex> mutexes_;  // guarded by mutex_
};

// A mutex per key that goes with its last user.
class FreeingMutexMap {
 public:
  static constexpr const char* kName = "mutex_map_freeing";

  template <class Section>
  void with_lock(const std::string& key, Section section) {
    const Use use(*this, key);
    section();
  }

 private:
  struct Entry {
    std::mutex mutex;
    int users = 0;  // guarded by the map's mutex
  };
  using Entries = std::unordered_map<std::string, Entry>;

  class Use {
   public:
    Use(FreeingMutexMap& map, const std::string& key) : map_(map), entry_(map.enter(key)) {
      entry_.second.mutex.lock();
    }
    ~Use() {
      entry_.second.mutex.unlock();
      map_.leave(entry_);
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    FreeingMutexMap& map_;
    Entries::value_type& entry_;
  };

  Entries::value_type& enter(const std::string& key) {
    const std::lock_guard lock(mutex_);
    Entries::value_type& entry = *entries_.try_emplace(key).first;
    ++entry.second.users;
    return entry;
  }

  void leave(Entries::value_type& entry) {
    Entries::node_type gone;  // freed after the lock
    const std::lock_guard lock(mutex_);
    if (--entry.second.users == 0) gone = entries_.extract(entry.first);
  }

  std::mutex mutex_;
  Entries entries_;  // guarded by mutex_
};

}  // namespace

int main(int argc, char** argv) {
  return bench::lock_main<StripedMutexes<64>, StripedMutexes<1024>, MutexMap, FreeingMutexMap>(
      argc, argv);
}
