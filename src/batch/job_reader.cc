#include "batch/job_reader.h"

#include <cerrno>

#include <unistd.h>

#include "base/hash_key.h"
#include "base/json_text.h"
#include "base/system_error.h"

namespace keyway::batch {

namespace {

constexpr std::string_view kSpace = " \t\r";
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

std::string quoted(std::string_view text) {
  std::string json;
  append_json_string(json, text);
  return json;
}

Error duplicate_id(std::string_view id) {
  return {ErrorCode::kInvalidArgument, "the id " + quoted(id) +
                                           " was there before\n  try: another id, or none: it is "
                                           "the number of the line then"};
}

}  // namespace

JobReader::JobReader(std::string file, int descriptor, const Limits& limits, Ids ids)
    : file_(std::move(file)), limits_(limits), checks_ids_(ids), lines_(descriptor) {}

JobReader::Next JobReader::next() {
  if (error_) return Next::kFailed;
  while (true) {
    switch (lines_.next()) {
      case jobs::LineReader::Next::kNeedsInput:
        return Next::kNeedsInput;
      case jobs::LineReader::Next::kEnd:
        return Next::kEnd;
      case jobs::LineReader::Next::kTooLong:
        ++line_;
        return fail({ErrorCode::kInvalidArgument,
                     "the line is longer than 16 MiB\n  try: put large input into a file, and its "
                     "name into the job"});
      case jobs::LineReader::Next::kLine:
        break;
    }
    ++line_;
    text_ = lines_.text();
    if (line_ == 1 && text_.starts_with(kByteOrderMark)) {
      text_.remove_prefix(kByteOrderMark.size());
    }
    if (text_.find_first_not_of(kSpace) == std::string_view::npos) continue;
    if (const Result<void> parsed = parser_.parse(text_, line_, job_); !parsed) {
      return fail(parsed.error());
    }
    return check_job();
  }
}

JobReader::Next JobReader::check_job() {
  const int limit = job_.weight > 1 ? jobs::limit_of(limits_, job_.group) : 1;
  if (job_.weight > limit) {
    return fail({ErrorCode::kInvalidArgument,
                 "the weight " + std::to_string(job_.weight) + " is more than the limit of group " +
                     quoted(job_.group) + ", which is " + std::to_string(limit) +
                     ": it could never run\n  try: a smaller weight, or a higher limit"});
  }
  if (checks_ids_ == Ids::kChecked && !ids_.insert(hash_key(job_.id))) {
    is_duplicate_ = true;
    return fail(duplicate_id(job_.id));
  }
  count_job();
  return Next::kJob;
}

void JobReader::count_job() {
  groups_.insert(hash_key(job_.group));
  ++seq_;
}

void JobReader::clear_suspicion() {
  KEYWAY_CHECK(is_duplicate_, "JobReader::clear_suspicion() of a job that is not suspected");
  is_duplicate_ = false;
  error_.reset();
  count_job();
}

JobReader::Next JobReader::fail(const Error& error) {
  error_ = error;
  error_->message = file_ + ":" + std::to_string(line_) + ": " + error.message;
  return Next::kFailed;
}

// ---- whole files

namespace {

// The line before this one in which an id stands; 0 if there is none. The descriptor stays where it
// is.
Result<std::uint64_t> first_line_with(std::string_view id, std::uint64_t before, int descriptor) {
  struct Place {
    explicit Place(int of) : descriptor(of), offset(lseek(of, 0, SEEK_CUR)) {}
    ~Place() { lseek(descriptor, offset, SEEK_SET); }
    const int descriptor;
    const off_t offset;
  } const place(descriptor);
  if (lseek(descriptor, 0, SEEK_SET) != 0) return system_error("cannot go back", errno);
  jobs::LineReader lines(descriptor);
  JobParser parser;
  Job job;
  std::uint64_t line = 0;
  while (line + 1 < before) {
    const jobs::LineReader::Next next = lines.next();
    if (next == jobs::LineReader::Next::kNeedsInput) {
      if (const Result<void> filled = lines.fill(); !filled) return filled.error();
      continue;
    }
    if (next != jobs::LineReader::Next::kLine) break;
    ++line;
    if (parser.parse(lines.text(), line, job).ok() && job.id == id) return line;
  }
  return std::uint64_t{0};
}

}  // namespace

std::uint64_t fingerprint_of(std::string_view text) {
  while (!text.empty() && kSpace.find(text.back()) != std::string_view::npos) text.remove_suffix(1);
  constexpr std::uint64_t kFirst = 0x9e3779b97f4a7c15;
  constexpr std::uint64_t kSecond = 0x6a09e667f3bcc909;
  std::uint64_t hash = kSecond ^ (text.size() * kFirst);
  for (; text.size() > 8; text.remove_prefix(8)) {
    hash = detail::fold_multiply(hash ^ detail::load_8(text.data()), kSecond);
  }
  return detail::fold_multiply(hash ^ detail::load_up_to_8(text.data(), text.size()), kFirst) ^
         hash;
}

Result<JobFileFacts> check_jobs(const std::string& file, int descriptor, const Limits& limits) {
  JobReader reader(file, descriptor, limits);
  JobFileFacts facts;
  JobReader::Next next{};
  while ((next = reader.next()) != JobReader::Next::kEnd) {
    if (next == JobReader::Next::kNeedsInput) {
      const Result<void> filled = reader.fill();
      if (!filled) return Error{ErrorCode::kIo, file + ": " + filled.error().message};
      continue;
    }
    if (next == JobReader::Next::kFailed) {
      if (!reader.is_duplicate()) return reader.error();
      const auto first = first_line_with(reader.job().id, reader.line(), descriptor);
      if (!first) return first.error();
      if (*first != 0) {
        Error error = reader.error();
        error.message.insert(error.message.find('\n'), ", in line " + std::to_string(*first));
        return error;
      }
      reader.clear_suspicion();
    }
    facts.fingerprints.push_back(fingerprint_of(reader.text()));
  }
  facts.jobs = reader.jobs();
  facts.groups = reader.groups();
  if (lseek(descriptor, 0, SEEK_SET) != 0) return system_error(file + ": cannot go back", errno);
  return facts;
}

}  // namespace keyway::batch
