// The inside of BatchRunner: what reads, a job until it is done with, one try of it, and the grace.
#pragma once

#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "batch/batch_runner.h"

namespace keyway::batch {

// A job that waits is its line of text: it is parsed again when it starts, which costs a
// microsecond and saves most of its memory.
struct BatchRunner::LiveJob final : Timer {
  LiveJob(BatchRunner& owner, std::string_view line_text)
      : runner(owner),
        text(new char[line_text.size() + JobParser::kPadding]),
        size(line_text.size()) {
    std::memcpy(text.get(), line_text.data(), size);
    std::memset(text.get() + size, 0, JobParser::kPadding);
  }
  void fire() override { runner.rested(*this); }

  BatchRunner& runner;
  const std::unique_ptr<char[]> text;
  const std::size_t size;
  std::uint64_t seq = 0;
  std::uint64_t line = 0;
  int attempts = 0;
  int weight = 1;
  TimePoint queued{};
  GroupWatch::Group* group = nullptr;
};

// A try whose process runs. It is known to the runner meanwhile, by its slot.
class BatchRunner::Try final : private Timer {
 public:
  // `timeout` 0: none.
  Try(BatchRunner& runner, const LoggedAttempt& attempt, Process& process,
      std::chrono::milliseconds timeout)
      : runner_(runner),
        attempt_(attempt),
        process_(process),
        ending_(runner.scheduler_, process),
        has_timeout_(timeout.count() > 0) {
    runner_.running_[index()] = this;
    ++runner_.running_count_;
    if (has_timeout_) runner_.scheduler_.add_timer(*this, runner_.now() + timeout);
  }
  ~Try() {
    if (has_timeout_) runner_.scheduler_.cancel_timer(*this);
    runner_.running_[index()] = nullptr;
    --runner_.running_count_;
  }

  void cancel() {
    is_cancelled_ = true;
    ending_.begin(runner_.options_.grace);
  }
  void kill() {
    is_cancelled_ = true;
    ending_.kill();
  }

  bool timed_out() const { return timed_out_; }
  bool is_cancelled() const { return is_cancelled_; }
  const LoggedAttempt& attempt() const { return attempt_; }
  Process& process() const { return process_; }

 private:
  void fire() override {
    timed_out_ = true;
    ending_.begin(runner_.options_.grace);
  }
  std::size_t index() const { return static_cast<std::size_t>(attempt_.slot - 1); }

  BatchRunner& runner_;
  const LoggedAttempt& attempt_;
  Process& process_;
  ProcessEnding ending_;
  const bool has_timeout_;
  bool timed_out_ = false;
  bool is_cancelled_ = false;
};

// Reads in its turns; between them, it waits for room or for input.
class BatchRunner::Feeder final : public Runnable, private Watcher {
 public:
  explicit Feeder(BatchRunner& runner) : runner_(runner) {}
  ~Feeder() { stop_waiting(); }

  void post() {
    if (posted_ || waits_) return;
    posted_ = true;
    runner_.scheduler_.post(*this);
  }
  bool posted() const { return posted_; }

  // False if there is nothing to wait for: a file is read at once.
  bool wait() {
    waits_ = runner_.host_.loop->watch(runner_.input_.descriptor, *this, EPOLLIN).ok();
    return waits_;
  }
  void stop_waiting() {
    if (!std::exchange(waits_, false)) return;
    runner_.host_.loop->unwatch(runner_.input_.descriptor, *this);
  }

 private:
  void run(Turn&) override {
    posted_ = false;
    if (runner_.feed_some()) post();
  }
  void ready(std::uint32_t) override {
    stop_waiting();
    runner_.fill();
    post();
  }

  BatchRunner& runner_;
  bool posted_ = false;
  bool waits_ = false;
};

// How long what runs may go on after the first signal.
class BatchRunner::GraceTimer final : private Timer {
 public:
  explicit GraceTimer(BatchRunner& runner) : runner_(runner) {
    runner_.scheduler_.add_timer(*this, runner_.now() + runner_.options_.grace);
  }
  ~GraceTimer() { runner_.scheduler_.cancel_timer(*this); }

 private:
  void fire() override {
    runner_.notice("the grace is over: ending what still runs");
    runner_.stop(runner_.ending_, Stop::kTerminate, /*within_grace=*/false);
  }

  BatchRunner& runner_;
};

}  // namespace keyway::batch
