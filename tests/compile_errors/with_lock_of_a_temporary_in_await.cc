// expect first: pass the name of a variable, or std::ref.name. if it cannot be copied
#include <memory>

#include "keyway/key_locks.h"

#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
keyway::Task<int> wait(keyway::KeyLocks& locks) {
  auto named = [owner = std::make_unique<int>(1)]() -> keyway::Task<int> { co_return *owner; };
  co_return co_await locks.with_lock("key", std::move(named));
}
#else
#error Only g++ 12 must be told: pass the name of a variable, or std::ref(name) if it cannot be copied
#endif
