// What is said between `keyway run` and a worker: one UTF-8 JSON object per line, 16 MiB at most.
//
//   -> {"v":1,"type":"hello","run":"r1","worker":3,"max_inflight":1}
//   <- {"v":1,"type":"ready"}
//   -> {"type":"job","id":"f:1042","key":"u7","group":"u7","seq":1042,"attempt":1,"deadline_ms":30000,"record":{}}
//   <- {"id":"f:1042","ok":true,"out":{}}
//   <- {"id":"f:1042","ok":false,"error":"402","retry":true,"retry_after_ms":500}
//
// `record` is the record as it is if that is JSON on one line, else a string of it if it is UTF-8; else there is
// `record_b64`. `deadline_ms` is how long the worker has, if there is a timeout. Fields of an answer that are not known
// are skipped.
//
// Thread safety: one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "handlers/handler.h"
#include "keyway/scheduler.h"

namespace keyway::run {

struct WorkerAnswer {
  enum Kind { kReady, kResult, kFault } kind = kFault;
  // kResult
  std::string_view id;
  bool ok = false;
  std::string_view out;    // its JSON; empty: none
  std::string_view error;  // empty: none
  bool retry = true;
  std::optional<Duration> retry_after;
  // kFault: why it is no answer
  std::string fault;
};

class WorkerProtocol {
 public:
  static constexpr std::size_t kLongestLine = std::size_t{16} << 20;
  // How many bytes behind a line must be there to be read.
  static constexpr std::size_t kPadding = 64;
  static constexpr Duration kLongestDelay = std::chrono::hours(1);

  WorkerProtocol();
  ~WorkerProtocol();

  static std::string hello(std::string_view run_id, int worker, int max_inflight);
  // Appends a line. False, and nothing is appended: it would be longer than kLongestLine.
  bool append_job(std::string& lines, const Call& call, Duration timeout);
  // Without its newline, and with kPadding. What the answer points to is there until the next call.
  WorkerAnswer parse(std::string_view line);

 private:
  struct Parsers;
  void append_record(std::string& line, std::string_view value);

  std::unique_ptr<Parsers> parsers_;
};

}  // namespace keyway::run
