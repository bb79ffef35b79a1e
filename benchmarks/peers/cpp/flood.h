// The workloads of no-op tasks: w1, w2, w3 and backlog.
//
// Start and end are stamped by the threads that do the work: the submitter at its first submit,
// the worker at the end of the last task.
//
// A process runs its workload three times, each time on a new peer: memory is measured in the first
// run, when all of it is new, and time in the last, when the process has its memory from the system.
// The time of the first run is reported too.
#pragma once

#include <atomic>
#include <latch>
#include <thread>
#include <vector>

#include <malloc.h>

#include "measure.h"
#include "options.h"
#include "peer.h"

namespace bench {

// What the no-op tasks of a run share. Outlives the peer.
struct Flood {
  Flood(const Options& options, Tally& counts)
      : tasks(static_cast<std::uint32_t>(options.tasks)),
        tally(counts),
        last_of_submitter(static_cast<std::size_t>(options.submitters)) {
    tally.reset();
  }

  const std::uint32_t tasks;
  Tally& tally;
  std::atomic<bool> in_order{true};
  std::vector<std::atomic<std::uint32_t>> last_of_submitter;
};

// 16 bytes and trivially copyable, so that std::function holds it without allocating.
struct NoOpTask {
  Flood* flood;
  std::uint32_t index;
  std::uint32_t submitter;

  void operator()() const noexcept {
    flood->tally.count_one(index + Tally::kStampEvery >= flood->tasks);
  }
};

// Also checks that a submitter's tasks start in the order in which it submitted them.
struct OrderedTask {
  Flood* flood;
  std::uint32_t index;
  std::uint32_t submitter;

  void operator()() const noexcept {
    std::atomic<std::uint32_t>& last = flood->last_of_submitter[submitter];
    if (last.load(std::memory_order_relaxed) > index) flood->in_order.store(false);
    last.store(index, std::memory_order_relaxed);
    flood->tally.count_one(index + Tally::kStampEvery >= flood->tasks);
  }
};

struct SubmitTimes {
  Nanoseconds first;
  Nanoseconds last;
};

// Each submitter has its own stretch of the task numbers; keys are taken round robin.
template <class Task, class Peer>
SubmitTimes submit_all(Peer& peer, const Options& options, const std::vector<std::string>& keys,
                       Flood& flood) {
  const auto submitters = static_cast<std::size_t>(options.submitters);
  const auto tasks = static_cast<std::size_t>(options.tasks);
  std::vector<SubmitTimes> times(submitters);
  std::latch start(options.submitters);
  std::vector<std::thread> threads;
  for (std::size_t who = 0; who < submitters; ++who) {
    threads.emplace_back([&, who] {
      const std::size_t begin = tasks * who / submitters;
      const std::size_t end = tasks * (who + 1) / submitters;
      std::size_t key = begin % keys.size();
      start.arrive_and_wait();
      times[who].first = now_ns();
      for (std::size_t i = begin; i < end; ++i) {
        peer.submit(keys[key], i,
                    Task{&flood, static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(who)});
        if (++key == keys.size()) key = 0;
      }
      times[who].last = now_ns();
    });
  }
  for (std::thread& thread : threads) thread.join();
  SubmitTimes all = times[0];
  for (const SubmitTimes& one : times) {
    all = {std::min(all.first, one.first), std::max(all.last, one.last)};
  }
  return all;
}

inline void wait_for_all(const Flood& flood) {
  const auto give_up = std::chrono::steady_clock::now() + kPatience;
  while (flood.tally.total() < flood.tasks) {
    if (std::chrono::steady_clock::now() > give_up) {
      fail("only " + std::to_string(flood.tally.total()) + " of " + std::to_string(flood.tasks) +
           " tasks ran within 120 s");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

struct FloodFigures {
  double ns_per_task;
  double submit_ns_per_task;
  double bytes_per_task;
  bool in_order;
};

inline void check_all_ran(const Flood& flood) {
  if (flood.tally.total() == flood.tasks) return;
  fail(std::to_string(flood.tally.total()) + " tasks ran, not " + std::to_string(flood.tasks));
}

// w1, w2, w3.
template <class Task, class Peer>
FloodFigures flood_once(const PeerSetup& setup, const Options& options,
                        const std::vector<std::string>& keys, Tally& tally, bool measures_memory) {
  Flood flood(options, tally);
  FloodFigures figures{};
  {
    Peer peer(setup);
    malloc_trim(0);
    const std::int64_t bytes_before = resident_bytes();
    const SubmitTimes submit = submit_all<Task>(peer, options, keys, flood);
    wait_for_all(flood);
    const auto elapsed = static_cast<double>(flood.tally.last_end() - submit.first);
    finish(peer);
    const auto tasks = static_cast<double>(options.tasks);
    figures = {.ns_per_task = elapsed / tasks,
               .submit_ns_per_task = static_cast<double>(submit.last - submit.first) / tasks,
               .bytes_per_task = 0,
               .in_order = flood.in_order.load()};
    if (measures_memory) {
      std::this_thread::sleep_for(kTimeToGiveMemoryBack);
      malloc_trim(0);
      figures.bytes_per_task = static_cast<double>(resident_bytes() - bytes_before) / tasks;
    }
  }
  check_all_ran(flood);
  return figures;
}

template <class Task, class Peer>
void run_flood(const PeerSetup& setup, const Options& options, JsonLine& line) {
  const std::vector<std::string> keys = make_keys(options);
  static Tally tally;
  const bool many_keys = options.workload == "w3";
  const FloodFigures first = flood_once<Task, Peer>(setup, options, keys, tally, many_keys);
  flood_once<Task, Peer>(setup, options, keys, tally, false);
  const FloodFigures last = flood_once<Task, Peer>(setup, options, keys, tally, false);
  line.add("ns_per_task", last.ns_per_task);
  line.add("first_run_ns_per_task", first.ns_per_task);
  if (options.workload == "w2") line.add("fifo", first.in_order && last.in_order);
  if (many_keys) line.add("bytes_kept_per_key", first.bytes_per_task);
}

// The time between the last submit and the opening of the gate is not counted.
template <class Peer>
FloodFigures backlog_once(const PeerSetup& setup, const Options& options,
                          const std::vector<std::string>& keys, Tally& tally) {
  Flood flood(options, tally);
  Gate gate(setup.threads);
  FloodFigures figures{};
  {
    Peer peer(setup);
    hold(peer, gate);
    malloc_trim(0);
    const std::int64_t bytes_before = resident_bytes();
    const SubmitTimes submit = submit_all<NoOpTask>(peer, options, keys, flood);
    const auto queued_bytes = static_cast<double>(resident_bytes() - bytes_before);
    if (flood.tally.total() != 0) fail("the gate leaks: tasks ran while they were held back");
    const Nanoseconds opened = now_ns();
    gate.open();
    wait_for_all(flood);
    const auto queueing = static_cast<double>(submit.last - submit.first);
    const auto draining = static_cast<double>(flood.tally.last_end() - opened);
    finish(peer);
    const auto tasks = static_cast<double>(options.tasks);
    figures = {.ns_per_task = (queueing + draining) / tasks,
               .submit_ns_per_task = queueing / tasks,
               .bytes_per_task = queued_bytes / tasks,
               .in_order = true};
  }
  check_all_ran(flood);
  return figures;
}

template <class Peer>
void run_backlog(const PeerSetup& setup, const Options& options, JsonLine& line) {
  const std::vector<std::string> keys = make_keys(options);
  static Tally tally;
  const FloodFigures first = backlog_once<Peer>(setup, options, keys, tally);
  backlog_once<Peer>(setup, options, keys, tally);
  const FloodFigures last = backlog_once<Peer>(setup, options, keys, tally);
  line.add("ns_per_task", last.ns_per_task);
  line.add("first_run_ns_per_task", first.ns_per_task);
  line.add("submit_ns_per_task", last.submit_ns_per_task);
  line.add("bytes_per_waiting_task", first.bytes_per_task);
}

}  // namespace bench
