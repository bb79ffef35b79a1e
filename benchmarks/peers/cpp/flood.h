// The workloads of no-op tasks: w1, w2, w3 and backlog.
//
// Start and end are stamped by the threads that do the work: the submitter at its first submit,
// the worker at the end of the last task.
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
  explicit Flood(const Options& options)
      : tasks(static_cast<std::uint32_t>(options.tasks)),
        last_of_submitter(static_cast<std::size_t>(options.submitters)) {}

  const std::uint32_t tasks;
  Tally tally;
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

// w1, w2, w3.
template <class Task, class Peer>
void run_flood(const PeerSetup& setup, const Options& options, JsonLine& line) {
  const std::vector<std::string> keys = make_keys(options);
  Flood flood(options);
  {
    Peer peer(setup);
    malloc_trim(0);
    const std::int64_t bytes_before = resident_bytes();
    const SubmitTimes submit = submit_all<Task>(peer, options, keys, flood);
    wait_for_all(flood);
    const auto elapsed = static_cast<double>(flood.tally.last_end() - submit.first);
    finish(peer);
    line.add("ns_per_task", elapsed / static_cast<double>(options.tasks));
    if (options.workload == "w2") line.add("fifo", flood.in_order.load());
    if (options.workload == "w3") {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the last keys go
      malloc_trim(0);
      const auto kept = static_cast<double>(resident_bytes() - bytes_before);
      line.add("bytes_kept_per_key", kept / static_cast<double>(options.keys));
    }
  }
  if (flood.tally.total() != flood.tasks) {
    fail(std::to_string(flood.tally.total()) + " tasks ran, not " + std::to_string(flood.tasks));
  }
}

// The time between the last submit and the opening of the gate is not counted.
template <class Peer>
void run_backlog(const PeerSetup& setup, const Options& options, JsonLine& line) {
  const std::vector<std::string> keys = make_keys(options);
  Flood flood(options);
  Gate gate(setup.threads);
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
    line.add("ns_per_task", (queueing + draining) / tasks);
    line.add("submit_ns_per_task", queueing / tasks);
    line.add("bytes_per_waiting_task", queued_bytes / tasks);
  }
  if (flood.tally.total() != flood.tasks) {
    fail(std::to_string(flood.tally.total()) + " tasks ran, not " + std::to_string(flood.tasks));
  }
}

}  // namespace bench
