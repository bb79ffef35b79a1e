#include <atomic>

#include <keyway/task.h>
#include <keyway/thread_pool.h>

namespace {

keyway::Task<int> answer() {
  co_await keyway::sleep_for(std::chrono::milliseconds(1));
  co_return 42;
}

}  // namespace

int main() {
  std::atomic<int> executed = 0;
  {
    keyway::ThreadPool pool({.threads = 2});
    pool.execute([&executed] { ++executed; });
    if (keyway::sync_wait(pool, answer()) != 42) return 1;
  }
  return executed == 1 ? 0 : 1;
}
