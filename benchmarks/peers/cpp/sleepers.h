// The workload of tasks that sleep: w4.
#pragma once

#include <atomic>
#include <thread>
#include <vector>

#include "measure.h"
#include "options.h"
#include "peer.h"

namespace bench {

// What the sleeping tasks of one pass share. Also checks that no key exceeds its limit.
struct Nap {
  explicit Nap(const Options& options)
      : limit(options.limit),
        left(options.tasks),
        running(static_cast<std::size_t>(options.keys)) {}

  const std::int64_t limit;
  std::atomic<std::int64_t> left;
  std::atomic<Nanoseconds> last_end{0};
  std::atomic<bool> over_limit{false};
  std::vector<std::atomic<std::int64_t>> running;
};

struct NapTask {
  Nap* nap;
  std::size_t key;

  void begin() const {
    if (nap->running[key].fetch_add(1) >= nap->limit) nap->over_limit.store(true);
  }
  void end() const {
    nap->running[key].fetch_sub(1);
    const Nanoseconds end = now_ns();
    if (nap->left.fetch_sub(1) == 1) nap->last_end.store(end);
  }
};

template <class Peer>
double nap_milliseconds(Peer& peer, const Options& options, const std::vector<std::string>& keys,
                        Nap& nap) {
  const Nanoseconds first = now_ns();
  for (std::size_t i = 0; i < static_cast<std::size_t>(options.tasks); ++i) {
    const NapTask task{&nap, i % keys.size()};
    if constexpr (requires { peer.submit_sleep(keys[0], i, task); }) {
      peer.submit_sleep(keys[task.key], i, task);
    } else {
      peer.submit(keys[task.key], i, [task] {
        task.begin();
        std::this_thread::sleep_for(kSleep);
        task.end();
      });
    }
  }
  const auto give_up = std::chrono::steady_clock::now() + kPatience;
  while (nap.last_end.load() == 0) {
    if (std::chrono::steady_clock::now() > give_up) fail("w4 did not end within 120 s");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (nap.over_limit.load()) fail("a key ran more tasks at once than its limit");
  finish(peer);
  return static_cast<double>(nap.last_end.load() - first) / 1e6;
}

// w4: the first pass on a new peer is "cold", the second on the same peer "warm".
template <class Peer>
void run_sleepers(const PeerSetup& setup, const Options& options, JsonLine& line) {
  const std::vector<std::string> keys = make_keys(options);
  Nap cold(options);
  Nap warm(options);
  Peer peer(setup);
  line.add("cold_ms", nap_milliseconds(peer, options, keys, cold));
  const double warm_ms = nap_milliseconds(peer, options, keys, warm);
  line.add("warm_ms", warm_ms);
  line.add("total_ms", warm_ms);
}

}  // namespace bench
