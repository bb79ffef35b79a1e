// A source for tests: partitions of records in memory, and what was committed of them survives a restart.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "keyway/source.h"

namespace keyway {

// What is there, whoever reads it.
struct FakeLog {
  struct Line {
    std::optional<std::string> key;
    std::string value;
  };
  std::map<PartitionId, std::vector<Line>> partitions;  // a line's offset is its index
  std::map<PartitionId, Progress> committed;
};

class FakeSource : public Source {
 public:
  explicit FakeSource(FakeLog& log) : log_(log) {}

  std::string name() const override { return "fake"; }
  Result<void> open(std::function<void()> wake) override {
    wake_ = std::move(wake);
    for (const auto& [id, lines] : log_.partitions) assign(id);
    return {};
  }
  Result<Polled> poll(std::vector<Record>& records, std::vector<PartitionEvent>& events,
                      std::size_t most) override {
    if (poll_error) return *poll_error;
    for (PartitionEvent& event : std::exchange(events_, {})) {
      if (event.kind == PartitionEvent::kAssigned) begin(event);
      events.push_back(std::move(event));
    }
    bool more = false;
    for (auto& [id, next] : next_) {
      const auto& lines = log_.partitions[id];
      const GapMap& done = done_before_[id];
      while (next < static_cast<Offset>(lines.size()) && !paused_.contains(id)) {
        if (records.size() == std::min(most, batch)) break;
        const Offset at = next++;
        if (!contains(done, at)) records.push_back(record(id, at));
      }
      more = more || next < static_cast<Offset>(lines.size());
    }
    for (const PartitionId id : std::exchange(later_, {})) assign(id);
    if (!events_.empty()) return Polled{Polled::kMore};
    if (more) return Polled{records.empty() ? Polled::kIdle : Polled::kMore};
    return Polled{ends ? Polled::kEnd : Polled::kIdle};
  }
  Result<void> commit(std::span<const Progress> progress) override {
    if (on_commit) {
      if (Result<void> told = on_commit(progress); !told) return told;
    }
    for (const Progress& one : progress) log_.committed[one.partition] = one;
    return {};
  }
  void pause(PartitionId partition) override { paused_.insert(partition); }
  void resume(PartitionId partition) override { paused_.erase(partition); }

  // With the poll after the next one.
  void assign_later(PartitionId id) { later_.push_back(id); }
  // From here on a poll says so.
  void assign(PartitionId id) { events_.push_back({PartitionEvent::kAssigned, {.partition = id}}); }
  void take_away(PartitionId id, PartitionEvent::Kind kind) {
    next_.erase(id);
    paused_.erase(id);
    events_.push_back({kind, {.partition = id}});
    if (wake_) wake_();
  }

  bool ends = true;
  std::size_t batch = 256;
  std::optional<Error> poll_error;
  std::function<Result<void>(std::span<const Progress>)> on_commit;
  std::function<void(PartitionId)> on_assigned;

 private:
  // Where it was committed last, by whoever had it.
  void begin(PartitionEvent& event) {
    const PartitionId id = event.progress.partition;
    Progress& committed = log_.committed[id];
    committed.partition = id;
    event.progress = committed;
    next_[id] = committed.watermark;
    done_before_[id] = committed.done_above;
    paused_.erase(id);
    if (on_assigned) on_assigned(id);
  }

  Record record(PartitionId id, Offset at) const {
    const FakeLog::Line& line = log_.partitions[id][static_cast<std::size_t>(at)];
    Record made{.partition = id, .offset = at, .end = at + 1, .value = line.value};
    if (line.key) made.key = *line.key;
    return made;
  }

  FakeLog& log_;
  std::function<void()> wake_;
  std::map<PartitionId, Offset> next_;
  std::map<PartitionId, GapMap> done_before_;
  std::set<PartitionId> paused_;
  std::vector<PartitionEvent> events_;
  std::vector<PartitionId> later_;
};

}  // namespace keyway
