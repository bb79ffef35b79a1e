// A callable that was posted to a scheduler.
#pragma once

#include <concepts>
#include <functional>
#include <type_traits>
#include <utility>

#include "keyway/detail/block_pool.h"
#include "keyway/scheduler.h"

namespace keyway::detail {

template <class F>
class PostedCall final : public Runnable {
 public:
  // It is posted once, and deletes itself when it runs.
  template <class G>
    requires(!std::same_as<std::remove_cvref_t<G>, PostedCall>)
  explicit PostedCall(G&& callable) : callable_(std::forward<G>(callable)) {}

  // An exception that leaves the callable ends the program, as that of a std::thread does.
  void run(Turn&) noexcept override {
    F callable(std::move(callable_));
    delete this;
    std::invoke(std::move(callable));
  }

  static void* operator new(std::size_t bytes) { return allocate_block(bytes); }
  static void operator delete(void* block, std::size_t bytes) { deallocate_block(block, bytes); }

 private:
  F callable_;
};

}  // namespace keyway::detail
