// expect: Keyway needs C\+\+20: compile with -std=c\+\+20
// flags: -std=c++17
#include "keyway/group_executor.h"
