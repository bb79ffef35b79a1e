#include "serial/serial_load.h"

#include "keyway/detail/queued_call.h"

namespace keyway {

namespace detail {

QueuePlace::QueuePlace(SerialLoad& load) : load_(&load), kind_(Kind::kUncounted) {
  if (load.has_limit()) kind_ = load.take_place() ? Kind::kCounted : Kind::kNone;
  began_ = load.waits().begin();
}

void QueuePlace::leave() {
  if (began_ != TimePoint()) load_->waits().end(began_);
  if (kind_ == Kind::kCounted) load_->give_back_place();
  load_ = nullptr;
}

void QueuePlace::give_back() noexcept { load_->give_back_place(); }

}  // namespace detail
}  // namespace keyway
