// expect: GivesTheValueOfTheGroupTask
#include <string>

#include "keyway/group_task.h"

const keyway::GroupTask<int> task("key", "id", [] { return std::string("text"); });
