// expect: only a keyway::Task can await this
#include "../support/foreign_coroutine.h"
#include "keyway/task.h"

keyway::ForeignCoroutine wait() { static_cast<void>(co_await keyway::current_stop_token()); }
