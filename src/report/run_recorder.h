// What happened in a run, and a page that shows it: one HTML file that opens offline.
//
//   RunRecorder recorder({.title = "jobs.jsonl"});
//   recorder.add(attempt);                                  // as each attempt ends
//   Result<void> written = recorder.write_html("report.html", {.places = 8, .limit_of = limit_of});
//
// Guarantees:
//   (1) Bounded memory, whatever the number of attempts and groups: with the usual bounds about 10
//       MB, and a page of 1 MB for a million attempts; 24 MB and 4 MB if all names are as long as
//       they are kept and every failure has its output.
//   (2) Exact however many there are: the counts, the times of all attempts together, what ran
//       and waited over time. For the groups with the longest running times: their own counts and
//       times; the rest is added up in one line.
//   (3) Drawn one by one: all attempts while there are few; else the first, those that ran or
//       waited longest, and those that failed. The page says how many were left out.
//   (4) The page needs nothing from outside and can load nothing. Whatever ids, groups and output
//       contain is shown as text.
//   (5) write_html() replaces the file as a whole: there is the old one or the new one, also
//       after a crash.
// Times that contradict each other (an end before its start) are put in order, not refused.
//
// Thread safety: one thread at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/histogram.h"
#include "base/hot_keys.h"
#include "keyway/error.h"
#include "report/attempt.h"
#include "report/kept_attempts.h"
#include "report/report_texts.h"
#include "report/stream_sample.h"
#include "report/time_series.h"

namespace keyway {

// What the attempts do not tell. Everything may be left out.
struct RunFacts {
  int places = 0;                                 // how many could run at once; 0: not known
  std::function<int(std::string_view)> limit_of;  // of a group; 0: not known
  std::uint64_t groups = 0;                       // how many there were; 0: as far as counted
  std::uint64_t not_run = 0;                      // left over, because the run was ended
  std::uint64_t resumed_past = 0;                 // done in an earlier run
  std::string note;                               // how it ended, if not as usual: one sentence

  int limit(std::string_view group) const { return limit_of ? limit_of(group) : 0; }
};

// What a run could not have been shorter than: the work of one group through its limit, all work
// through all places, or its longest attempt; whichever needs most.
struct RunBound {
  enum class Kind { kNone, kGroup, kPlaces, kItem };
  Kind kind = Kind::kNone;
  std::string name;  // of the group, or the id of the attempt
  std::uint64_t attempts = 0;
  int limit = 0;
  std::chrono::nanoseconds needed{0};
};

// How the attempts of one group, or of all, went.
struct AttemptCounts {
  std::uint64_t attempts = 0;
  std::uint64_t ok = 0;
  std::uint64_t ok_after_retry = 0;  // of the ok
  std::uint64_t retries = 0;
  std::uint64_t failed = 0;
  std::uint64_t timed_out = 0;
  std::uint64_t cancelled = 0;
  Histogram waiting;
  Histogram running;

  void add(const LoggedAttempt& attempt);
  void merge(const AttemptCounts& other);
};

class RunRecorder {
 public:
  struct Bounds {
    std::size_t groups = 1000;  // that are counted one by one
    std::size_t lanes = 300;    // of these, drawn over time
    std::size_t buckets = 1000;
    std::size_t samples = 2000;
    std::size_t lane_buckets = 160;
    KeptAttempts::Bounds kept;
    std::size_t text_bytes = 160;           // of an id or group
    std::size_t error_output_bytes = 2000;  // of one failure
  };

  explicit RunRecorder(ReportTexts texts);
  RunRecorder(ReportTexts texts, Bounds bounds);

  void add(const LoggedAttempt& attempt);
  // Where a stream stands; in the order of time. Of many, every second one is kept, and so on.
  void add(const StreamSample& sample);

  const AttemptCounts& counts() const { return all_; }
  // From the first attempt that was queued to the last that ended.
  std::chrono::nanoseconds elapsed() const;
  RunBound bound(const RunFacts& facts) const;

  // The message of a failure names the file.
  Result<void> write_html(const std::string& path, const RunFacts& facts = {}) const;
  std::string html(const RunFacts& facts = {}) const;
  // The data alone, as it stands in the page.
  std::string json(const RunFacts& facts = {}) const;

 private:
  friend class PageData;

  struct Group {
    AttemptCounts counts;
    TimeSeries over_time;
  };
  enum Spans : std::size_t { kRunning, kWaiting, kSpans };
  enum Events : std::size_t { kOk, kRetried, kFailed, kEvents };

  void add_to_group(const LoggedAttempt& attempt);

  ReportTexts texts_;
  Bounds bounds_;
  AttemptCounts all_;
  TimeSeries over_time_;
  HotKeys hot_groups_;         // weighted with their running time
  std::vector<Group> groups_;  // by slot of hot_groups_
  AttemptCounts other_groups_;
  std::uint64_t groups_replaced_ = 0;
  KeptAttempts kept_;
  std::vector<StreamSample> samples_;
  std::uint64_t samples_step_ = 1;  // every so many are kept
  std::uint64_t samples_given_ = 0;
  StreamSample last_sample_;
  LoggedAttempt::Time first_queued_ = LoggedAttempt::Time::max();
  LoggedAttempt::Time last_end_ = LoggedAttempt::Time::min();
};

}  // namespace keyway
