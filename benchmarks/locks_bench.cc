// Keyway's locks under w5.
#include <string>

#include "keyway/key_locks.h"
#include "lock_main.h"

namespace {

class KeywayLocks {
 public:
  static constexpr const char* kName = "keyway_locks";

  template <class Section>
  void with_lock(const std::string& key, Section section) {
    const auto guard = locks_.lock(key);
    section();
  }

 private:
  keyway::KeyLocks locks_;
};

}  // namespace

int main(int argc, char** argv) { return bench::lock_main<KeywayLocks>(argc, argv); }
