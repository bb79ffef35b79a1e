// How the scenarios are run as tests.
//
// A test spends a budget of interleavings on its scenario: first all of those with at most one preemption, then with
// at most two, and with three if those were few, as far as the budget goes; then PCT of depth 2 and 3 and uniformly
// random ones. By default the budget is small. KEYWAY_INTERLEAVINGS=1000000 spreads a million over the tests of the
// run instead, and the program prints how many there were for each component: how many tests ran all interleavings
// with two preemptions, and how many schedules were distinct, each strategy counted by itself.
// KEYWAY_REPLAY=<schedule>, with a filter for one test, runs just that one. At its end a test replays the schedules that
// are kept for it (kept_schedules.h). An interleaving that does not repeat itself fails the test, unless the scenario
// explores the block pool; such a test does not count as exhausted.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "explore/explorer.h"

namespace keyway::explore {

// Fails the calling test, with the schedule, if an interleaving breaks the scenario.
void expect_holds(std::string_view component, const ScenarioOptions& options,
                  const std::function<std::unique_ptr<Scenario>()>& make);

template <class S>
void expect_holds(std::string_view component, const ScenarioOptions& options = {}) {
  expect_holds(component, options, [] { return std::make_unique<S>(); });
}

// Fails the calling test unless the explorer finds a failure of this kind: for planted faults.
void expect_finds(FailureKind kind, const ScenarioOptions& options,
                  const std::function<std::unique_ptr<Scenario>()>& make);

template <class S>
void expect_finds(FailureKind kind, const ScenarioOptions& options = {}) {
  expect_finds(kind, options, [] { return std::make_unique<S>(); });
}

}  // namespace keyway::explore
