// w5: what a lock per key costs. The main program of a lock peer; prints one line of JSON.
//
// A lock peer is a class with
//   static constexpr const char* kName;
//   template <class Section> void with_lock(const std::string& key, Section section);
// whose with_lock() is called from all threads, and runs the section while it holds the key.
//
// Each thread goes through a random order of keys of its own. The section adds one to the key's
// counter, a plain number: a lock that does not exclude loses some, and fails the run.
//
// The clock runs from when every thread has had a lock (which takes a while on few processors) until
// all of them together have done the run's locks, or kLongestRun is over: so nobody is measured
// alone, before the others have come or after they have gone. A process makes three runs, each on
// a new peer; time is that of the last.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <random>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include "measure.h"
#include "options.h"

namespace bench {

inline constexpr std::chrono::seconds kLongestRun{1};
inline constexpr std::size_t kOrderLength = std::size_t{1} << 16U;  // then it begins anew

// What is locked, and by whom in which order. Made before the clock starts.
struct LockPlan {
  explicit LockPlan(const Options& options) : locks(static_cast<std::uint64_t>(options.tasks)) {
    for (std::int64_t i = 0; i < options.keys; ++i) {
      char name[32];
      std::snprintf(name, sizeof(name), "tenant-%06d", static_cast<int>(i));
      keys.emplace_back(name);
    }
    for (std::int64_t who = 0; who < options.submitters; ++who) {
      std::mt19937 random(static_cast<std::uint32_t>(who + 1));
      std::vector<std::uint32_t>& order = order_of_thread.emplace_back(kOrderLength);
      for (std::uint32_t& key : order) key = random() % static_cast<std::uint32_t>(keys.size());
    }
  }

  const std::uint64_t locks;  // of all threads together
  std::vector<std::string> keys;
  std::vector<std::vector<std::uint32_t>> order_of_thread;
};

// When the clock starts and ends. Thread safety: every method from any thread.
class LockRun {
 public:
  static constexpr std::uint64_t kCountEvery = 64;  // each time, all threads would meet here

  explicit LockRun(const LockPlan& plan)
      : locks_(plan.locks), threads_(plan.order_of_thread.size()) {}

  void arrive() { arrived_.fetch_add(1); }
  [[nodiscard]] bool all_arrived() const { return arrived_.load() == threads_; }

  void count() {
    if (done_.fetch_add(kCountEvery) + kCountEvery >= locks_) end();
  }
  // Checked before every lock; orders nothing.
  [[nodiscard]] bool ended() const { return ended_.load(std::memory_order_relaxed); }
  void wait_for_end() {
    if (!wake_.try_acquire_for(kLongestRun)) end();
  }
  // REQUIRES: the threads have been joined.
  [[nodiscard]] Nanoseconds end_time() const { return end_time_; }

 private:
  void end() {
    const Nanoseconds now = now_ns();
    if (ended_.exchange(true)) return;
    end_time_ = now;
    wake_.release();
  }

  const std::uint64_t locks_;
  const std::size_t threads_;
  std::atomic<std::size_t> arrived_{0};
  alignas(64) std::atomic<bool> ended_{false};
  alignas(64) std::atomic<std::uint64_t> done_{0};
  Nanoseconds end_time_ = 0;  // written by who ends it
  std::binary_semaphore wake_{0};
};

inline std::uint64_t sum(const std::vector<std::uint64_t>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), std::uint64_t{0});
}

// Returns ns per lock.
template <class Peer>
double lock_once(const LockPlan& plan) {
  const std::size_t threads = plan.order_of_thread.size();
  std::vector<std::uint64_t> counters(plan.keys.size());
  std::vector<std::uint64_t> before(threads);  // locks of each thread before the clock started
  std::vector<std::uint64_t> during(threads);  // and after
  std::vector<Nanoseconds> begins(threads);
  LockRun run(plan);
  Peer peer;
  const auto work = [&](std::size_t who) {
    const std::vector<std::uint32_t>& order = plan.order_of_thread[who];
    const auto lock = [&](std::uint64_t number) {
      const std::uint32_t key = order[number % kOrderLength];
      peer.with_lock(plan.keys[key], [&counters, key] { ++counters[key]; });
    };
    std::uint64_t locks = 0;
    lock(locks++);
    run.arrive();
    while (!run.all_arrived() && !run.ended()) lock(locks++);
    before[who] = locks;
    begins[who] = now_ns();
    for (locks = 0; !run.ended();) {
      lock(locks++);
      if (locks % LockRun::kCountEvery == 0) run.count();
    }
    during[who] = locks;
  };
  std::vector<std::thread> workers;
  for (std::size_t who = 0; who < threads; ++who) workers.emplace_back(work, who);
  run.wait_for_end();
  for (std::thread& worker : workers) worker.join();
  const std::uint64_t locks = sum(before) + sum(during);
  if (sum(counters) != locks) {
    fail("the lock does not exclude: " + std::to_string(locks) + " sections counted to " +
         std::to_string(sum(counters)));
  }
  const Nanoseconds elapsed = run.end_time() - *std::min_element(begins.begin(), begins.end());
  if (elapsed <= 0) fail("some thread did not get its first lock within a second");
  return static_cast<double>(elapsed) / static_cast<double>(sum(during));
}

template <class Peer>
void run_lock_peer(const Options& options) {
  const LockPlan plan(options);
  const double first = lock_once<Peer>(plan);
  lock_once<Peer>(plan);
  const double last = lock_once<Peer>(plan);
  JsonLine line;
  line.add("peer", Peer::kName);
  line.add("workload", options.workload);
  line.add("submitters", options.submitters);
  line.add("tasks", options.tasks);
  line.add("keys", options.keys);
  line.add("ns_per_lock", last);
  line.add("first_run_ns_per_lock", first);
  line.print();
}

// Runs the peer that --peer names, the first unless it names one.
template <class... Peers>
int lock_main(int argc, char** argv) {
  const Options options = parse_options(argc, argv);
  if (options.workload != "w5") fail_usage("locks have no " + options.workload);
  const auto ran = [&options]<class Peer>() {
    if (!options.peer.empty() && options.peer != Peer::kName) return false;
    run_lock_peer<Peer>(options);
    return true;
  };
  if (!(ran.template operator()<Peers>() || ...)) fail_usage("no such lock: " + options.peer);
  return 0;
}

}  // namespace bench
