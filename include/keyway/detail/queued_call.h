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
  // `counts`: towards the total of all queues, where it was taken already.
  QueuePlace(SerialLoad& load, bool counts);
  QueuePlace(QueuePlace&& other) noexcept
      : load_(std::exchange(other.load_, nullptr)),
        counts_(other.counts_),
        submitted_(other.submitted_) {}
  QueuePlace& operator=(QueuePlace&&) = delete;
  ~QueuePlace() {
    if (load_ != nullptr && counts_) give_back();
  }

  bool counts() const { return counts_; }
  // Whether anybody looks at it: the total has a limit, or the wait is measured.
  bool matters() const;
  // The work begins.
  void leave();

 private:
  void give_back() noexcept;

  SerialLoad* load_;
  bool counts_;
  TimePoint submitted_;
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
