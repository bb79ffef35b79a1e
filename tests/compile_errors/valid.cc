// expect: compiles
#include <functional>
#include <memory>

#include "keyway/group_executor.h"
#include "keyway/key_locks.h"
#include "keyway/pipeline.h"
#include "keyway/serial_dispatcher.h"

struct Member {
  int operator()(std::stop_token) & { return 1; }
};

int function();

void submit(keyway::GroupExecutor& executor, keyway::SerialDispatcher& dispatcher) {
  static_cast<void>(executor.submit("key", [owner = std::make_unique<int>(1)] { return *owner; }));
  static_cast<void>(executor.submit("key", "id", std::function<void()>()));
  static_cast<void>(executor.submit("key", {}, Member()));
  static_cast<void>(executor.submit("key", {.id = "id"}, function));
  static_cast<void>(executor.group("key").submit({}, [](auto... stop) { return sizeof...(stop); }));
  static_cast<void>(dispatcher.run("key", [] { return std::make_unique<int>(1); }));
}

// What the messages for g++ 12 say to do works with every compiler.
keyway::Task<int> await(keyway::GroupExecutor& executor, keyway::KeyLocks& locks) {
  auto move_only = [owner = std::make_unique<int>(1)] { return *owner; };
  auto submit = executor.submit_async("key", std::move(move_only));
  auto handle = co_await submit;
  const auto copied = [owner = std::make_shared<int>(1)] { return *owner; };
  auto other = co_await executor.submit_async("key", copied);
  auto coroutine = [owner = std::make_unique<int>(1)]() -> keyway::Task<int> { co_return *owner; };
  const int sum = co_await locks.with_lock("key", std::ref(coroutine));
  co_return sum + (co_await *handle).value() + (co_await *other).value();
}

struct Handler {
  keyway::Outcome operator()(const keyway::Record&, const keyway::Attempt&) {
    return keyway::done();
  }
};

keyway::Task<std::vector<keyway::Outcome>> handle(const keyway::Batch& batch);

void handle(keyway::Source& source, keyway::KeyLocks& locks) {
  keyway::Pipeline(source, {}, [](const keyway::Record&) {});
  keyway::Pipeline(source, {}, [](keyway::Record) -> keyway::Task<void> { co_return; });
  keyway::Pipeline(source, {}, Handler());
  keyway::Pipeline(source, {}, [](const keyway::Batch& batch) { return handle(batch); });
  keyway::Pipeline(source, {}, [](const keyway::Batch&) { return keyway::done(); });
  locks.with_lock("key", [owner = std::make_unique<int>(1)]() mutable { owner.reset(); });
  static_cast<void>(locks.with_lock("key", function));
}
