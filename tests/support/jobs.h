// What tests of schedulers post, and how they wait.
#pragma once

#include <chrono>
#include <functional>
#include <thread>
#include <utility>

#include "keyway/scheduler.h"

namespace keyway {

struct Job final : Runnable {
  Job() = default;
  explicit Job(std::function<void()> then) : work(std::move(then)) {}
  void run(Turn&) override { work(); }
  std::function<void()> work;
};

// Runs a number of times, each time but the first because it said so itself.
struct Repeater final : Runnable {
  explicit Repeater(
      int times, std::function<void()> then = [] {})
      : wanted(times), work(std::move(then)) {}
  void run(Turn& turn) override {
    work();
    if (++rounds < wanted) turn.again = this;
  }
  const int wanted;
  int rounds = 0;  // not atomic: a scheduler orders one run after the other
  std::function<void()> work;
};

// Yields until the condition holds; false after half a minute.
template <class Condition>
bool eventually(Condition condition) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace keyway
