// For tests: makes sticky dispatchers whose workers are simulated.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "keyway/serial_dispatcher.h"
#include "serial/sim_worker.h"

namespace keyway {

struct StickySimulation {
  static std::unique_ptr<SerialDispatcher> make(const SerialOptions& options,
                                                testing::SimScheduler& sim) {
    std::vector<std::unique_ptr<Scheduler>> workers;
    for (int i = 0; i < options.workers; ++i) workers.push_back(std::make_unique<SimWorker>(sim));
    return std::unique_ptr<SerialDispatcher>(new SerialDispatcher(options, std::move(workers)));
  }
};

}  // namespace keyway
