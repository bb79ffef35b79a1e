// The exception of a rejected task.
#pragma once

#include <string_view>

#include "keyway/error.h"

namespace keyway {

// It has the message and the reason of detail::rejection_error().
RejectedError rejected_error(RejectionReason reason, std::string_view group_key,
                             std::string_view task_id);

}  // namespace keyway
