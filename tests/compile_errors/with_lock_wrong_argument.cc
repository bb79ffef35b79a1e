// expect: CanBeCalledWithoutArguments
#include "keyway/key_locks.h"

void lock(keyway::KeyLocks& locks) {
  locks.with_lock("key", [](int number) { return number; });
}
