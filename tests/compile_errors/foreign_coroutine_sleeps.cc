// expect: only a keyway::Task can await this
#include "../support/foreign_coroutine.h"
#include "keyway/task.h"

keyway::ForeignCoroutine wait() { co_await keyway::sleep_for(std::chrono::seconds(1)); }
