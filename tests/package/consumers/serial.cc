#include <keyway/serial_dispatcher.h>

int main() {
  keyway::SerialDispatcher dispatcher({.workers = 2});
  const keyway::Result<int> result = dispatcher.run("account", [] { return 42; });
  return result.value_or(0) == 42 ? 0 : 1;
}
