// The explored threads of this process, and one execution of a scenario on them after the other.
#pragma once

#include "explore/explorer.h"
#include "explore/strategy.h"

namespace keyway::explore {

// Starts the threads, which are used for all executions and end with the process.
void start_threads(const ScenarioOptions& options, Strategy& strategy);
// Returns when the scenario's threads have returned.
void execute(Scenario& scenario);

}  // namespace keyway::explore
