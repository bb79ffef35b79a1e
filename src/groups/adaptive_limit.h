// How many may run at once so that what serves them is busy, and none of them only waits inside it:
// a limit that is found by measuring.
//
//   AdaptiveLimit limit({.floor = 1, .ceiling = 64});
//   executor.set_limit("db", limit.on_completed(took, running, now));      // after each task
//
// A server that can do K things at once takes the same time for each up to K, and longer beyond:
// with n inside, n - K of them wait there. From the time alone that it takes without a queue (the
// base) and the time it takes now, the queue is n * (1 - base / now). As in TCP Vegas the limit
// aims at a queue of kQueue, small, but enough to be seen; so it ends one or two above the knee
// K.
//
// Vegas is known for two weaknesses, and they are dealt with here:
//   - The base. The shortest time ever seen is that of a lucky task, or of a server as it was an
//     hour ago. Here the base is measured: every kProbeEvery windows half the limit is in force
//     for one window. If half as many are served faster, there was a queue; if not, the time is
//     what the work takes, also if that has changed. (Methods that compare with a long-term
//     average instead, such as gradient limits, take a queue that stays long enough for normal.)
//     By calculation this costs about 4 % of throughput.
//   - Noise. The limit is moved by medians of whole windows (2 * limit completions, 10 to 200),
//     not by single tasks, and by a difference only as far as it exceeds what the spread within
//     the windows explains.
// AIMD needs an event that says "too much"; many servers never send one, they are only slow.
//
// Guarantees:
//   (1) floor <= limit <= ceiling. One window at most halves it (and a probe that follows at once
//       halves it once more, for its time).
//   (2) Less than half of a window's tasks, however slow or quick, do not move it.
//   (3) It grows only while at least half of the tasks ran, for a moment at least, with the limit
//       reached. Until a queue is seen for the first time, a window doubles it.
//   (4) Deterministic: the same calls give the same limits. Memory: 2.3 KB, and 16 bytes for each of
//       the tasks that ran at once, at most.
// Not guaranteed: a useful limit for tasks whose times differ by orders of magnitude from minute to
// minute, or if failures, which may be quick, are counted among the completions: leave them out.
//
// Thread safety: one thread at a time.
#pragma once

#include <vector>

#include "keyway/scheduler.h"

namespace keyway {

class AdaptiveLimit {
 public:
  struct Options {
    int floor = 1;
    int ceiling = 64;
    int initial = 0;  // 0: the floor
  };

  // REQUIRES: 1 <= floor <= ceiling.
  explicit AdaptiveLimit(Options options);

  // `running`: how many ran when it completed, itself among them. Returns the limit now in force.
  int on_completed(Duration latency, int running, TimePoint now);

  int limit() const { return in_force_; }

 private:
  static constexpr double kQueue = 1.5;
  static constexpr int kProbeEvery = 20;

  struct Measured {
    double median = 0;  // in seconds
    double error = 0;   // standard error of the median
  };

  struct Peak {
    TimePoint time;  // of a completion
    int running;     // just before it
  };

  int peak_since(TimePoint began, int running, TimePoint now);
  Measured measure();
  void end_window(TimePoint now);
  bool learn_base(const Measured& measured, double mean_running);
  void adjust(const Measured& measured, double mean_running, bool limit_reached);
  double next_step();
  void put_in_force(int limit, TimePoint now);
  int rounded() const;

  const Options options_;
  double limit_;  // what was found; in_force_ differs from it while probing
  int in_force_;
  TimePoint in_force_since_ = TimePoint::min();

  // The window: completions of tasks that began under in_force_, but for the first generation.
  std::vector<double> latencies_;
  double running_sum_ = 0;  // of the most that ran during each of them
  int limit_reached_ = 0;   // for how many of them it was
  int to_ignore_ = 0;

  // Of completions after which no more ran: later ones have fewer.
  std::vector<Peak> peaks_;

  bool has_base_ = false;
  Measured base_;
  // The window before the probe.
  bool probing_ = false;
  Measured before_probe_;
  double running_before_probe_ = 0;
  int windows_to_probe_ = kProbeEvery;

  bool queue_seen_ = false;
  int growths_in_a_row_ = 0;
  int cuts_in_a_row_ = 0;
};

}  // namespace keyway
