// For tests of what a wait costs: a simulation that counts how many waits the library looks at.
//
// The check of a wait asks the scheduler of each task and holder that the wait may depend on for its number of threads.
// So the number of questions is the number of waits that the checks have looked at: the same in every run, on any machine.
#pragma once

#include <cstddef>
#include <cstdint>

#include "support/sim_decorator.h"

namespace keyway {

class CountedChecks final : public SimDecorator {
 public:
  using SimDecorator::SimDecorator;
  void post(Runnable& runnable) override { sim_.post(runnable); }
  std::size_t max_threads() const override {
    ++count_;
    return kUnlimitedThreads;
  }

  std::uint64_t count() const { return count_; }

 private:
  mutable std::uint64_t count_ = 0;
};

}  // namespace keyway
