// For tests of user code that runs in destructors.
#pragma once

#include <functional>
#include <utility>

namespace keyway {

// Calls a function when it is destroyed.
class AtEnd {
 public:
  explicit AtEnd(std::function<void()> call) : call_(std::move(call)) {}
  AtEnd(AtEnd&& other) noexcept : call_(std::exchange(other.call_, nullptr)) {}
  AtEnd& operator=(AtEnd&&) = delete;
  ~AtEnd() {
    if (call_) call_();
  }

 private:
  std::function<void()> call_;
};

}  // namespace keyway
