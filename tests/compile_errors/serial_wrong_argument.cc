// expect: TakesNothingOrAStopToken
#include "keyway/serial_dispatcher.h"

void run(keyway::SerialDispatcher& dispatcher) {
  static_cast<void>(dispatcher.run("key", [](int number) { return number; }));
}
