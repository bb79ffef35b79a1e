#include "groups/aftermath.h"

namespace keyway {

void Aftermath::perform() {
  for (std::uint32_t i = 0; i < count_; ++i) post_now(*posts_[i]);
  count_ = 0;
  if (more_ == nullptr) [[likely]]
    return;
  const std::unique_ptr<More> rest = std::move(more_);
  for (Runnable* runnable : rest->posts) post_now(*runnable);
  for (detail::Wakeup* wakeup : rest->wakeups) wakeup->wake();
  for (const RoomNews& news : rest->room_waiters) {
    if (news.let_in != nullptr) news.let_in->owner().came_in(*news.let_in);
    news.waiter->room_came(news.came);
  }
}

Aftermath::More& Aftermath::more() {
  if (more_ == nullptr) more_ = std::make_unique<More>();
  return *more_;
}

}  // namespace keyway
