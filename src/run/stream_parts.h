// The inside of StreamRun: what stands between the pipeline and its source and dead letters, and the grace.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "run/stream_run.h"

namespace keyway::run {

// Tells where reading begins, and has the joblog written before each commit.
class StreamRun::WatchedSource final : public Source {
 public:
  WatchedSource(StreamRun& run, Source& source) : run_(run), source_(source) {}

  bool was_opened() const { return opened_; }

  std::string name() const override { return source_.name(); }
  std::string place_of(const Record& record) const override { return source_.place_of(record); }
  std::string id_of(const Record& record) const override { return source_.id_of(record); }
  std::string unique_id_of(const Record& record) const override {
    return source_.unique_id_of(record);
  }
  Result<void> open(std::function<void()> wake) override {
    Result<void> opened = source_.open(std::move(wake));
    opened_ = opened.ok();
    return opened;
  }
  Result<Polled> poll(std::vector<Record>& records, std::vector<PartitionEvent>& events,
                      std::size_t most) override {
    Result<Polled> polled = source_.poll(records, events, most);
    const bool at_end = polled && polled->state == Polled::kEnd;
    if (!began_ && (!records.empty() || at_end)) {
      began_ = true;
      run_.first_records(records, records.empty());
    }
    return polled;
  }
  Result<void> commit(std::span<const Progress> progress) override {
    run_.flush_log();
    return source_.commit(progress);
  }
  void pause(PartitionId partition) override { source_.pause(partition); }
  void resume(PartitionId partition) override { source_.resume(partition); }
  std::optional<Offset> end_of(PartitionId partition) const override {
    return source_.end_of(partition);
  }
  void close() override { source_.close(); }

 private:
  StreamRun& run_;
  Source& source_;
  bool opened_ = false;
  bool began_ = false;
};

class StreamRun::WatchedLetters final : public DeadLetters {
 public:
  explicit WatchedLetters(StreamRun& run) : run_(run) {}
  Result<void> store(const DeadLetter& letter) override { return run_.store_dead(letter); }

 private:
  StreamRun& run_;
};

// How long what runs may go on after the first signal, and workers after their last record.
class StreamRun::GraceTimer final : private Timer {
 public:
  explicit GraceTimer(StreamRun& run) : run_(run) {
    run_.scheduler_.add_timer(*this, run_.now() + run_.options_.grace);
  }
  ~GraceTimer() { run_.scheduler_.cancel_timer(*this); }

 private:
  void fire() override { run_.grace_is_over(); }

  StreamRun& run_;
};

}  // namespace keyway::run
