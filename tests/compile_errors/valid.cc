// expect: compiles
#include <functional>
#include <memory>

#include "keyway/group_executor.h"
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
