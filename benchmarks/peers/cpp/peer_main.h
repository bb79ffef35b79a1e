// The main program of a peer (peer.h says what one is): runs one workload in a fresh process and
// prints one line of JSON.
#pragma once

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "flood.h"
#include "measure.h"
#include "options.h"
#include "peer.h"
#include "sleepers.h"

namespace bench {

// w6.
template <class Peer>
void run_round_trips(const PeerSetup& setup, const Options& options, JsonLine& line) {
  const std::string key = "key-0";
  std::atomic<std::int64_t> done{0};  // outlives the peer: a task may still be in notify_one
  std::vector<Nanoseconds> durations;
  durations.reserve(static_cast<std::size_t>(options.tasks));
  {
    Peer peer(setup);
    for (std::int64_t i = 0; i < options.tasks; ++i) {
      const Nanoseconds begin = now_ns();
      if constexpr (requires { peer.round_trip(key); }) {
        peer.round_trip(key);
      } else {
        peer.submit(key, static_cast<std::size_t>(i), [&done] {
          done.fetch_add(1);
          done.notify_one();
        });
        done.wait(i);
      }
      durations.push_back(now_ns() - begin);
    }
  }
  std::sort(durations.begin(), durations.end());
  line.add("p50_ns", percentile(durations, 0.50));
  line.add("p90_ns", percentile(durations, 0.90));
  line.add("p99_ns", percentile(durations, 0.99));
}

template <class Peer>
int run_peer(const Options& options) {
  const std::string& workload = options.workload;
  if (workload == "w5") fail_usage(std::string(Peer::kName) + " has no w5: it is no lock");
  const bool sleeps = workload == "w4";
  if (sleeps && !Peer::kTasksMayBlock) {
    fail_usage(std::string(Peer::kName) + " has no w4: its tasks must not block");
  }
  const auto sleepers = static_cast<int>(std::min(options.tasks, options.keys * options.limit));
  const PeerSetup setup{.threads = sleeps ? sleepers : worker_threads(),
                        .limit = static_cast<int>(options.limit),
                        .tasks = static_cast<std::size_t>(options.tasks),
                        .erase_idle_keys = workload == "w3",
                        .fixed_threads = workload == "backlog"};
  JsonLine line;
  line.add("peer", Peer::kName);
  line.add("workload", workload);
  line.add("submitters", options.submitters);
  line.add("tasks", options.tasks);
  line.add("keys", options.keys);
  line.add("limit", options.limit);
  if (workload == "w1" || workload == "w3") run_flood<NoOpTask, Peer>(setup, options, line);
  if (workload == "w2") run_flood<OrderedTask, Peer>(setup, options, line);
  if (workload == "backlog") run_backlog<Peer>(setup, options, line);
  if (workload == "w4") run_sleepers<Peer>(setup, options, line);
  if (workload == "w6") run_round_trips<Peer>(setup, options, line);
  line.print();
  return 0;
}

template <class Peer>
int peer_main(int argc, char** argv) {
  return run_peer<Peer>(parse_options(argc, argv));
}

}  // namespace bench
