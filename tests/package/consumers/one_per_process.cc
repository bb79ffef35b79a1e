// Groups and locks, which are libraries of their own, find a cycle that leads through both: they share one graph of waits
// and agree on which task the calling thread runs. If either existed twice, this program would hang.
#include <atomic>

#include <keyway/group_executor.h>
#include <keyway/key_locks.h>

namespace {

std::atomic<int> refused = 0;

template <class Call>
void count_refusal(Call call) {
  try {
    call();
  } catch (const keyway::Exception& exception) {
    if (exception.code() == keyway::ErrorCode::kWaitCycle) ++refused;
  }
}

}  // namespace

int main() {
  keyway::KeyLocks locks;
  keyway::GroupExecutor executor({}, {.threads = 2});
  auto outer = executor.submit("a", "outer", [&locks, &executor] {
    const keyway::KeyLocks::Guard guard = locks.lock("key");
    auto inner = executor.submit("b", "inner", [&locks] {
      count_refusal([&locks] { static_cast<void>(locks.lock("key")); });
    });
    count_refusal([&inner] { inner.join().value(); });
  });
  outer.join().value();
  return refused == 1 ? 0 : 1;
}
