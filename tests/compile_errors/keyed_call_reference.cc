// expect: ReturnsNoReference
#include "keyway/keyed_calls.h"

void call(keyway::KeyedCalls& calls, int& number) {
  static_cast<void>(calls.call("key", [&]() -> int& { return number; }));
}
