// expect first: when_any.. gives values: return a pointer
#include "keyway/when_any.h"

keyway::Task<int&> find();
keyway::Task<void> wait() { co_await keyway::when_any(find(), find()); }
