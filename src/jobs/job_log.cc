#include "jobs/job_log.h"

#include <cerrno>

#include <fcntl.h>
#include <simdjson.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json_text.h"
#include "base/system_error.h"
#include "base/time_text.h"
#include "jobs/line_reader.h"

namespace keyway::jobs {

namespace {

std::int64_t milliseconds_between(LoggedAttempt::Time from, LoggedAttempt::Time to) {
  return std::max<std::int64_t>(0,
                                std::chrono::round<std::chrono::milliseconds>(to - from).count());
}

// Where the last whole line ends. Only at the end of the file is there anything to look for.
Result<off_t> end_of_last_line(int file, off_t size) {
  constexpr off_t kStep = 4096;
  char buffer[kStep];
  for (off_t end = size; end > 0;) {
    const off_t begin = std::max<off_t>(0, end - kStep);
    const ssize_t got = pread(file, buffer, static_cast<std::size_t>(end - begin), begin);
    if (got != end - begin) return system_error("cannot read", got < 0 ? errno : EIO);
    for (off_t at = got; at > 0; --at) {
      if (buffer[at - 1] == '\n') return begin + at;
    }
    end = begin;
  }
  return off_t{0};
}

}  // namespace

const char* to_string(AttemptOutcome outcome) {
  switch (outcome) {
    case AttemptOutcome::kOk:
      return "ok";
    case AttemptOutcome::kRetry:
      return "retry";
    case AttemptOutcome::kFailed:
      return "failed";
    case AttemptOutcome::kTimedOut:
      return "timeout";
    case AttemptOutcome::kCancelled:
      return "cancelled";
  }
  return "unknown";
}

void append_log_line(std::string& text, const LoggedAttempt& attempt) {
  const auto name = [&](std::string_view field) {
    text += ",\"";
    text += field;
    text += "\":";
  };
  const auto number = [&](std::string_view field, std::int64_t value) {
    name(field);
    text += std::to_string(value);
  };
  const auto time = [&](std::string_view field, LoggedAttempt::Time value) {
    name(field);
    text += '"';
    append_time(text, value);
    text += '"';
  };
  text += "{\"id\":";
  append_json_string(text, attempt.id);
  number("seq", static_cast<std::int64_t>(attempt.seq));
  name("key");
  append_json_string(text, attempt.key);
  name("group");
  append_json_string(text, attempt.group);
  number("slot", attempt.slot);
  number("attempt", attempt.attempt);
  time("queued", attempt.queued);
  time("start", attempt.start);
  time("end", attempt.end);
  number("wait_ms", milliseconds_between(attempt.queued, attempt.start));
  number("run_ms", milliseconds_between(attempt.start, attempt.end));
  name("exit");
  text += attempt.signal != 0 || attempt.slot == 0 || !attempt.has_exit
              ? "null"
              : std::to_string(attempt.exit);
  number("signal", attempt.signal);
  name("outcome");
  text += '"';
  text += to_string(attempt.outcome);
  text += '"';
  name("final");
  text += attempt.final ? "true" : "false";
  text += "}\n";
}

Result<JobLog> JobLog::open(const std::string& path) {
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!file.is_open()) return system_error("cannot open " + path, errno);
  struct stat status{};
  if (fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
    const Result<off_t> end = end_of_last_line(file.get(), status.st_size);
    if (!end) return Error{ErrorCode::kIo, path + ": " + end.error().message};
    if (*end < status.st_size && ftruncate(file.get(), *end) != 0) {
      return system_error("cannot cut the torn last line off " + path, errno);
    }
  }
  return JobLog(path, std::move(file));
}

Result<void> JobLog::flush() {
  if (kept_.empty()) return {};
  ssize_t written = 0;
  do {
    written = write(file_.get(), kept_.data(), kept_.size());
  } while (written < 0 && errno == EINTR);
  if (written == static_cast<ssize_t>(kept_.size())) {
    kept_.clear();
    return {};
  }
  const int why = written < 0 ? errno : ENOSPC;
  struct stat status{};
  if (written > 0 && fstat(file_.get(), &status) == 0) {
    // If this fails too, the next run cuts it off.
    [[maybe_unused]] const int cut = ftruncate(file_.get(), status.st_size - written);
  }
  return system_error("cannot write " + path_, why);
}

Result<void> JobLog::read(const std::string& path,
                          const std::function<void(std::uint64_t, bool)>& ended) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) {
    if (errno == ENOENT) return {};
    return system_error("cannot open " + path, errno);
  }
  struct stat status{};
  if (fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  const Result<off_t> whole = end_of_last_line(file.get(), status.st_size);
  if (!whole) return Error{ErrorCode::kIo, path + ": " + whole.error().message};

  LineReader lines(file.get());
  simdjson::dom::parser parser;
  off_t read_bytes = 0;
  for (std::uint64_t number = 1; read_bytes < *whole;) {
    const LineReader::Next next = lines.next();
    if (next == LineReader::Next::kNeedsInput) {
      if (const Result<void> filled = lines.fill(); !filled) return filled;
      continue;
    }
    if (next == LineReader::Next::kEnd) break;
    const std::string_view text = lines.text();
    simdjson::dom::element line;
    std::uint64_t seq = 0;
    bool is_final = false;
    std::string_view outcome;
    const bool is_line = next == LineReader::Next::kLine &&
                         parser.parse(text.data(), text.size(), false).get(line) == 0 &&
                         line["seq"].get(seq) == 0 && line["final"].get(is_final) == 0 &&
                         line["outcome"].get(outcome) == 0;
    if (!is_line) {
      return Error{ErrorCode::kConflict, path + ":" + std::to_string(number) +
                                             ": this is no line of a joblog\n  try: --fresh to "
                                             "forget the earlier run, or repair the line"};
    }
    if (is_final) ended(seq, outcome == "ok");
    read_bytes += static_cast<off_t>(text.size()) + 1;
    ++number;
  }
  return {};
}

}  // namespace keyway::jobs
