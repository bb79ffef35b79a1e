// Lock peers: the accessor of oneTBB's concurrent_hash_map, which locks one entry. It spins, then
// yields, and never sleeps.
#include <string>

#include <oneapi/tbb/concurrent_hash_map.h>

#include "lock_main.h"

namespace {

struct Nothing {};
using Map = oneapi::tbb::concurrent_hash_map<std::string, Nothing>;

// Entries are kept for ever.
class TbbAccessor {
 public:
  static constexpr const char* kName = "tbb_accessor";

  template <class Section>
  void with_lock(const std::string& key, Section section) {
    Map::accessor entry;
    map_.insert(entry, key);  // finds it if it is there
    section();
  }

 private:
  Map map_;
};

// An entry goes with the one who holds it; whoever waits for it makes it anew.
class TbbAccessorErasing {
 public:
  static constexpr const char* kName = "tbb_accessor_erasing";

  template <class Section>
  void with_lock(const std::string& key, Section section) {
    Map::accessor entry;
    map_.insert(entry, key);
    section();
    map_.erase(entry);
  }

 private:
  Map map_;
};

}  // namespace

int main(int argc, char** argv) {
  return bench::lock_main<TbbAccessor, TbbAccessorErasing>(argc, argv);
}
