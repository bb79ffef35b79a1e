// For tests of what a wait costs: a simulation that counts how many waits the library looks at.
//
// The check of a wait asks the scheduler of each task and holder that the wait may depend on for its number of threads.
// So the number of questions is the number of waits that the checks have looked at: the same in every run, on any machine.
#pragma once

#include <cstddef>
#include <cstdint>

#include <gtest/gtest.h>

#include "support/memory.h"
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

// `checks(count)`: how many other waits the checks of `count` waits look at. Expects at most twice as many for each of many
// waits as for each of few. A first look at four times as many soon finds a cost that grows.
template <class Checks>
void expect_checks_stay(Checks checks) {
  constexpr int kFew = 1'000;
  constexpr int kMany = kSanitized ? 10'000 : 100'000;
  const auto of_each = [&](int count) { return static_cast<double>(checks(count)) / count; };
  const double of_few = of_each(kFew);
  for (const int count : {4 * kFew, kMany}) ASSERT_LE(of_each(count), 2 * of_few) << count;
}

}  // namespace keyway
