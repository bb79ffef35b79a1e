// expect: ReturnsNoReference
#include "keyway/serial_dispatcher.h"

void run(keyway::SerialDispatcher& dispatcher, int& number) {
  static_cast<void>(dispatcher.run("key", [&]() -> int& { return number; }));
}
