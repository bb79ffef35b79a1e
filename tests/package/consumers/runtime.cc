#include <atomic>

#include <keyway/task.h>
#include <keyway/thread_pool.h>

namespace {

keyway::Task<int> answer() {
  co_await keyway::sleep_for(std::chrono::milliseconds(1));
  co_return 42;
}

keyway::Task<int> one() { co_return 1; }

// Each await of a task that ends at once must leave the stack as it was, however the compiler was called.
keyway::Task<int> sum(int count) {
  int sum = 0;
  for (int i = 0; i < count; ++i) sum += co_await one();
  co_return sum;
}

}  // namespace

int main() {
  std::atomic<int> executed = 0;
  {
    keyway::ThreadPool pool({.threads = 2});
    pool.execute([&executed] { ++executed; });
    if (keyway::sync_wait(pool, answer()) != 42) return 1;
    if (keyway::sync_wait(pool, sum(1'000'000)) != 1'000'000) return 1;
  }
  return executed == 1 ? 0 : 1;
}
