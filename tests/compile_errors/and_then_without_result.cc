// expect: and_then\(\) takes a callable that returns a Result
#include "keyway/error.h"

void chain(keyway::Result<int> number) {
  static_cast<void>(number.and_then([](int value) { return value; }));
}
