// What a peer is to the workloads, and what it is told.
//
// A peer is a class with
//   static constexpr const char* kName;
//   static constexpr bool kTasksMayBlock;   // false: w4 is refused
//   explicit Peer(const PeerSetup&);        // the destructor ends its threads
//   template <class Task> void submit(const std::string& key, std::size_t index, Task task);
// and, where the default does not suit it,
//   void round_trip(const std::string& key);                    w6: submit, wait for the result
//   template <class Task> void submit_sleep(key, index, Task);  w4: Task has begin() and end()
//   void hold(Gate&);                                           backlog: keep tasks from running
//   void finish();                                              after the last task: join handles
//
// Peers drop the handle of a task right after submit (most have none), which flatters them:
// nobody would see a result or an exception.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <latch>
#include <string>
#include <vector>

#include "options.h"

namespace bench {

inline constexpr std::chrono::milliseconds kSleep{10};
inline constexpr std::chrono::seconds kPatience{120};
inline constexpr std::chrono::seconds kTimeToGiveMemoryBack{1};

struct PeerSetup {
  int threads;
  int limit;
  std::size_t tasks;
  bool erase_idle_keys;  // w3 asks for it; elsewhere a peer is faster when it keeps its keys
  bool fixed_threads;    // backlog: a blocked thread must not be made up for by another
};

// Holds tasks back until it is opened.
class Gate {
 public:
  explicit Gate(int tasks_to_hold) : count(tasks_to_hold), arrived_(tasks_to_hold) {}

  void pass() {
    arrived_.count_down();
    opened_.wait();
  }
  void wait_until_all_are_held() { arrived_.wait(); }
  void open() { opened_.count_down(); }

  const int count;

 private:
  std::latch arrived_;
  std::latch opened_{1};
};

inline std::vector<std::string> make_keys(const Options& options) {
  std::vector<std::string> keys;
  keys.reserve(static_cast<std::size_t>(options.keys));
  for (std::int64_t i = 0; i < options.keys; ++i) keys.push_back("key-" + std::to_string(i));
  return keys;
}

template <class Peer>
void finish(Peer& peer) {
  if constexpr (requires { peer.finish(); }) peer.finish();
}

template <class Peer>
void hold(Peer& peer, Gate& gate) {
  if constexpr (requires { peer.hold(gate); }) {
    peer.hold(gate);
  } else {
    for (int i = 0; i < gate.count; ++i) {
      peer.submit("gate-" + std::to_string(i), 0, [&gate] { gate.pass(); });
    }
  }
  gate.wait_until_all_are_held();
}

}  // namespace bench
