// What stands in a SerialDispatcher's queue: a callable, and the place it takes there if that matters.
#pragma once

#include <functional>
#include <stop_token>
#include <utility>

#include "keyway/detail/task_node.h"
#include "keyway/scheduler.h"

namespace keyway {

class SerialLoad;

namespace detail {

// A place in the queues, from submit until the work begins or is dropped.
class QueuePlace {
 public:
  explicit QueuePlace(SerialLoad& load);
  QueuePlace(QueuePlace&& other) noexcept
      : load_(std::exchange(other.load_, nullptr)), kind_(other.kind_), began_(other.began_) {}
  QueuePlace& operator=(QueuePlace&&) = delete;
  ~QueuePlace() {
    if (load_ != nullptr && kind_ == Kind::kCounted) give_back();
  }

  // As many wait in all queues as may: this is no place.
  bool is_none() const { return kind_ == Kind::kNone; }
  // Whether anybody looks at it: the queues have a limit in all, or the wait is measured.
  bool matters() const { return kind_ == Kind::kCounted || began_ != TimePoint(); }
  // The work begins.
  void leave();

 private:
  enum class Kind : unsigned char { kUncounted, kCounted, kNone };
  void give_back() noexcept;

  SerialLoad* load_;
  Kind kind_;
  TimePoint began_;  // the wait; the epoch: it is not measured
};

template <class F>
class QueuedCall {
 public:
  template <class G>
  QueuedCall(QueuePlace place, G&& callable)
      : place_(std::move(place)), callable_(std::forward<G>(callable)) {}

  decltype(auto) operator()()
    requires(!kTakesStopToken<F>)
  {
    place_.leave();
    return std::invoke(callable_);
  }
  decltype(auto) operator()(std::stop_token stop)
    requires(kTakesStopToken<F>)
  {
    place_.leave();
    return std::invoke(callable_, std::move(stop));
  }

 private:
  QueuePlace place_;
  F callable_;
};

}  // namespace detail
}  // namespace keyway
