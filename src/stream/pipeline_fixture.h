// What tests of pipelines keep in memory.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "keyway/dead_letters.h"
#include "keyway/handled_ids.h"
#include "keyway/record.h"
#include "keyway/testing/sim_scheduler.h"
#include "stream/fake_source.h"

namespace keyway {

struct KeptLetters final : DeadLetters {
  Result<void> store(const DeadLetter& letter) override {
    if (error) return *error;
    if (before_store) before_store(*letter.record);
    ids.emplace_back(letter.id);
    offsets.push_back(letter.record->offset);
    values.emplace_back(letter.record->value);
    causes.emplace_back(letter.cause);
    attempts.push_back(letter.attempts);
    return {};
  }
  std::optional<Error> error;
  std::function<void(const Record&)> before_store;
  std::vector<std::string> ids;
  std::vector<Offset> offsets;
  std::vector<std::string> values;
  std::vector<std::string> causes;
  std::vector<int> attempts;
};

struct KeptIds final : HandledIds {
  Result<bool> contains(std::string_view id) override {
    if (error) return *error;
    return ids.contains(id);
  }
  Result<void> add(std::string_view id) override {
    if (error) return *error;
    ids.emplace(id);
    return {};
  }
  std::optional<Error> error;
  std::set<std::string, std::less<>> ids;
};

// Values "0", "1", ... with keys "key 0", ... in turn, or without.
inline FakeLog numbered(int records, int keys, int partitions = 1) {
  FakeLog log;
  for (int i = 0; i < records; ++i) {
    log.partitions[i % partitions].push_back(
        {"key " + std::to_string(i % keys), std::to_string(i)});
  }
  return log;
}
inline FakeLog keyless(int records) {
  FakeLog log = numbered(records, 1);
  for (FakeLog::Line& line : log.partitions[0]) line.key.reset();
  return log;
}

// Requests a stop after a while.
class StopAfter final : private Timer {
 public:
  StopAfter(testing::SimScheduler& sim, Duration time) : sim_(sim) {
    sim_.add_timer(*this, sim.now() + time);
  }
  ~StopAfter() { sim_.cancel_timer(*this); }
  std::stop_token token() { return stop_.get_token(); }

 private:
  void fire() override { stop_.request_stop(); }
  testing::SimScheduler& sim_;
  std::stop_source stop_;
};

inline int number(const Record& record) { return std::stoi(std::string(record.value)); }

}  // namespace keyway
