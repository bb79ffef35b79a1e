// A place in a lane's queue: whoever waits for a permit derives from it or holds one.
#pragma once

namespace keyway {

struct Waiter {
  Waiter* next = nullptr;
  Waiter* previous = nullptr;  // null: it stands in no queue
};

}  // namespace keyway
