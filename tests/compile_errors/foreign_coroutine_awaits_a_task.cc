// expect: only a keyway::Task can await this
#include "../support/foreign_coroutine.h"
#include "keyway/task.h"

keyway::Task<int> answer();

keyway::ForeignCoroutine wait() { co_await answer(); }
