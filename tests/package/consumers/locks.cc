#include <thread>

#include <keyway/key_locks.h>

int main() {
  keyway::KeyLocks locks;
  int count = 0;
  const auto add = [&locks, &count] {
    for (int i = 0; i < 1000; ++i) {
      const keyway::KeyLocks::Guard guard = locks.lock("count");
      ++count;
    }
  };
  std::thread other(add);
  add();
  other.join();
  return count == 2000 && locks.active_lock_count() == 0 ? 0 : 1;
}
