// expect first: max_concurency
#include "keyway/group_policy.h"

keyway::GroupPolicy policy{.groups = {{"vip", keyway::GroupLimits{.max_concurency = 4}}}};
