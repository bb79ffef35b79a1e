// Of any number of attempts, those that are worth to be shown one by one: the first ones, those
// that ran longest, those that waited longest, and those that failed.
//
// Memory: at most the sum of its bounds, however many attempts there are.
//
// Thread safety: as std::vector.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "report/attempt.h"

namespace keyway {

class KeptAttempts {
 public:
  struct Bounds {
    std::size_t first = 5000;
    std::size_t longest_runs = 1000;
    std::size_t longest_waits = 500;
    std::size_t first_failures = 400;
    std::size_t last_failures = 100;
  };
  using Kept = std::shared_ptr<const LoggedAttempt>;
  struct Failure {
    Kept attempt;  // without its output, which others do not need
    std::string error_output;
  };

  explicit KeptAttempts(Bounds bounds) : bounds_(bounds) {}

  void add(const LoggedAttempt& attempt);

  // Each once, in the order in which they began.
  std::vector<Kept> all() const;
  std::vector<Kept> longest_runs(std::size_t n) const;   // longest first
  std::vector<Kept> longest_waits(std::size_t n) const;  // longest first
  std::vector<Failure> failures() const;                 // in the order in which they ended

 private:
  using Length = std::chrono::system_clock::duration;
  struct Ranked {
    Length length;
    Kept attempt;
  };
  // The n longest: a heap with the shortest of them on top.
  class Longest {
   public:
    explicit Longest(std::size_t most) : most_(most) {}
    bool would_keep(Length length) const;
    void add(Length length, Kept attempt);
    const std::vector<Ranked>& heap() const { return heap_; }
    std::vector<Kept> top(std::size_t n) const;

   private:
    std::size_t most_;
    std::vector<Ranked> heap_;
  };

  Bounds bounds_;
  std::vector<Kept> first_;
  Longest runs_{bounds_.longest_runs};
  Longest waits_{bounds_.longest_waits};
  std::vector<Failure> first_failures_;
  std::deque<Failure> last_failures_;
};

}  // namespace keyway
