// What the page shows: a recorder's numbers, put together.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "report/run_recorder.h"
#include "report/script_json.h"

namespace keyway {

// Lifetime: not longer than the recorder's and the facts'.
class PageData {
 public:
  PageData(const RunRecorder& recorder, const RunFacts& facts);

  // One sentence.
  std::string headline() const;
  std::string json() const;

 private:
  // All durations of the page's small distributions lie on one axis.
  struct Axis {
    double low = 0;  // logarithm of nanoseconds
    double high = 1;
    static constexpr int kBins = 32;
  };

  Axis find_axis() const;
  std::uint64_t groups() const;
  std::int64_t microseconds(LoggedAttempt::Time time) const;
  std::string bins(const Histogram& histogram) const;

  void write_run(ScriptJson& json) const;
  void write_series(ScriptJson& json) const;
  void write_samples(ScriptJson& json) const;
  void write_counts(ScriptJson& json, const AttemptCounts& counts) const;
  void write_groups(ScriptJson& json) const;
  void write_attempts(ScriptJson& json) const;
  void write_lists(ScriptJson& json) const;

  const RunRecorder& recorder_;
  const RunFacts& facts_;
  LoggedAttempt::Time begin_{};
  std::vector<HotKeys::Entry> hot_;
  std::vector<KeptAttempts::Kept> kept_;
  std::unordered_map<const LoggedAttempt*, std::size_t> places_;  // in kept_
  std::unordered_map<std::string, std::size_t> names_;            // of groups; first those of hot_
  std::vector<std::string> other_names_;                          // those that are not in hot_
  std::vector<std::uint64_t> drawn_;  // attempts of each of hot_ in kept_
  Axis axis_;
};

}  // namespace keyway
