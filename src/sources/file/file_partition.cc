#include "sources/file/file_partition.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/human_text.h"
#include "base/system_error.h"

namespace keyway {

namespace {

// A poll reads no more of one file, so that others have their turn, also within a line that has no end.
constexpr std::size_t kMostBytesPerPoll = std::size_t{4} << 20;
// When records keep more alive than this, the next ones have copies of their own.
constexpr std::size_t kMostAliveBytes = std::size_t{64} << 20;

constexpr const char* kFresh = "\n  try: --fresh, to begin again at its beginning";

std::string absolute_of(const std::string& path) {
  if (path == "-") return path;
  std::error_code failed;
  const auto absolute = std::filesystem::absolute(path, failed);
  return failed ? path : absolute.lexically_normal().string();
}

std::shared_ptr<const void> copy_of(std::string_view& text) {
  auto copy = std::make_shared_for_overwrite<char[]>(text.size());
  std::memcpy(copy.get(), text.data(), text.size());
  text = {copy.get(), text.size()};
  return copy;
}

// How many bytes came; less than `most` only at the end.
Result<std::size_t> read_at(int file, const std::string& name, char* to, std::size_t most,
                            Offset at) {
  std::size_t all = 0;
  while (all < most) {
    const ssize_t got = pread(file, to + all, most - all, at + static_cast<Offset>(all));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error("cannot read " + name, errno);
    if (got == 0) break;
    all += static_cast<std::size_t>(got);
  }
  return all;
}

}  // namespace

FilePartition::FilePartition(PartitionId id, std::string path, const FileSourceOptions& options,
                             std::shared_ptr<BlockCount> count)
    : id_(id),
      path_(std::move(path)),
      name_(path_ == "-" ? "stdin" : path_),
      options_(options),
      count_(std::move(count)) {}

FilePartition::~FilePartition() = default;

Error FilePartition::changed(const std::string& how) const {
  return {ErrorCode::kConflict, name_ + " " + how + kFresh};
}

// ---- opening

Result<void> FilePartition::open(const std::optional<Checkpoint::File>& stored,
                                 std::function<void()> wake) {
  stored_.path = storable(path_);
  stored_.absolute = storable(absolute_of(path_));
  if (stored) {
    if (stored->path != stored_.path && stored->absolute != stored_.absolute) {
      return Error{ErrorCode::kConflict, options_.checkpoint + " is of " + stored->absolute +
                                             ", not of " + stored_.absolute +
                                             "\n  try: --fresh, to begin again; or --state DIR"};
    }
    stored_ = before_ = *stored;
    resumed_past_ = stored->line - 1;
  }
  starts_.push_back({before_.watermark, before_.line});
  if (Result<void> opened = open_file(); !opened) return opened;
  if (is_regular_) {
    if (Result<void> same = compare_file(); !same) return same;
    for (const OffsetRange& range : before_.done_above) {
      const Result<std::uint64_t> lines = count_lines(range.begin, range.end);
      if (!lines) return lines.error();
      resumed_past_ += *lines;
    }
  } else {
    is_compared_ = before_.prefix_bytes == 0;
    watch_ = std::make_unique<ReadinessWatch>(file_, std::move(wake));
  }
  // What follows behind an open end is the rest of the line before.
  reader_.emplace(
      [this](char* to, std::size_t most, Offset at, std::size_t& bytes) {
        return read(to, most, at, bytes);
      },
      LineReader::Options{.begin = is_regular_ ? before_.watermark : 0,
                          .first_number = is_regular_ ? before_.line - (open_end_ ? 1 : 0) : 1,
                          .max_line_bytes = options_.max_line_bytes,
                          .count = count_});
  return {};
}

Result<void> FilePartition::open_file() {
  if (path_ != "-") {
    // Not to wait until a pipe has somebody who writes.
    own_ = FileDescriptor(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (!own_.is_open()) {
      Error error = system_error("cannot read " + path_, errno);
      error.retryable = false;
      return error;
    }
    file_ = own_.get();
  }
  struct stat about{};
  if (fstat(file_, &about) != 0) return system_error("cannot read " + name_, errno);
  if (S_ISDIR(about.st_mode))
    return Error{ErrorCode::kIo, "cannot read " + name_ + ": Is a directory"};
  // Standard input may begin in the middle of a file: it is read as a pipe is, from where it stands.
  is_regular_ = S_ISREG(about.st_mode) && path_ != "-";
  return {};
}

// A file is compared with its checkpoint before anything else is read.
Result<void> FilePartition::compare_file() {
  prefix_.resize(Checkpoint::kMostPrefix);
  Result<std::size_t> got = read_at(file_, name_, prefix_.data(), prefix_.size(), 0);
  if (!got) return got.error();
  prefix_.resize(*got);
  const Offset done =
      before_.done_above.empty() ? before_.watermark : before_.done_above.back().end;
  const std::uint64_t now = size().value_or(0);
  const std::uint64_t needed = std::max(static_cast<std::uint64_t>(done), before_.prefix_bytes);
  if (now < needed) {
    return changed("has " + grouped(now) + " bytes, but had " + grouped(needed) +
                   " at least when it was read before");
  }
  if (Result<void> same = compare_beginning(); !same) return same;
  char last = '\n';
  if (before_.watermark > 0) {
    got = read_at(file_, name_, &last, 1, before_.watermark - 1);
    if (!got) return got.error();
  }
  if (last != '\n') open_end_ = before_.watermark;
  return {};
}

Result<void> FilePartition::compare_beginning() {
  StableHash hash;
  hash.add(std::string_view(prefix_).substr(0, before_.prefix_bytes));
  if (before_.prefix_bytes > 0 && hash.hex() != before_.prefix_hash) {
    return changed("is another one than before: its first " + grouped(before_.prefix_bytes) +
                   " bytes differ");
  }
  is_compared_ = true;
  return {};
}

// ---- reading

Result<Got> FilePartition::read(char* to, std::size_t most, Offset at, std::size_t& bytes) {
  if (!is_regular_ && !ReadinessWatch::is_ready(file_)) return Got::kNothing;
  ssize_t got = -1;
  do {
    got = is_regular_ ? pread(file_, to, most, at) : ::read(file_, to, most);
  } while (got < 0 && errno == EINTR);
  if (got < 0 && errno == EAGAIN) return Got::kNothing;
  if (got < 0) return system_error("cannot read " + name_, errno);
  bytes = static_cast<std::size_t>(got);
  remember_beginning({to, bytes}, at);
  return got == 0 ? Got::kEnd : Got::kSome;
}

void FilePartition::remember_beginning(std::string_view bytes, Offset at) {
  const auto begin = static_cast<std::size_t>(at);
  if (prefix_.size() == Checkpoint::kMostPrefix || begin > prefix_.size()) return;
  const std::size_t known = prefix_.size() - begin;
  if (known >= bytes.size()) return;
  prefix_ += bytes.substr(known, Checkpoint::kMostPrefix - prefix_.size());
}

Result<Polled::State> FilePartition::poll(std::vector<Record>& records, std::size_t most) {
  if (is_at_end_) return Polled::kEnd;
  const std::size_t full = records.size() + most;
  const Offset enough = reader_->end() + static_cast<Offset>(kMostBytesPerPoll);
  while (true) {
    while (is_compared_ && records.size() < full) {
      const std::optional<Line> line = reader_->next();
      if (!line) break;
      if (const Result<bool> taken = take(*line, records); !taken) return taken.error();
    }
    if (records.size() >= full || reader_->end() >= enough) return Polled::kMore;
    const Result<Got> got = reader_->fill();
    if (!got) return got.error();
    if (*got == Got::kTooLong) {
      return Error{ErrorCode::kIo, name_ + ":" + std::to_string(reader_->number()) +
                                       ": the line has more than " +
                                       grouped(options_.max_line_bytes) +
                                       " bytes\n  try: --max-inflight-bytes with more than that"};
    }
    if (*got == Got::kEnd) return reach_end(records);
    if (*got == Got::kNothing) {
      if (watch_) watch_->arm();
      return Polled::kIdle;
    }
    if (!is_compared_ && prefix_.size() >= before_.prefix_bytes) {
      if (Result<void> same = compare_beginning(); !same) return same.error();
    }
  }
}

Result<Polled::State> FilePartition::reach_end(std::vector<Record>& records) {
  if (is_regular_) {
    if (Result<void> same = look_at_file(); !same) return same.error();
    if (options_.follow) return Polled::kIdle;
  } else if (!is_compared_ || reader_->end() < before_.watermark) {
    return changed("ended after " + grouped(static_cast<std::uint64_t>(reader_->end())) +
                   " bytes, but an earlier run came to " +
                   grouped(static_cast<std::uint64_t>(before_.watermark)));
  }
  is_at_end_ = true;
  if (const std::optional<Line> line = reader_->rest()) {
    if (const Result<bool> taken = take(*line, records); !taken) return taken.error();
  }
  return Polled::kEnd;
}

// At what seems to be the end of a file.
Result<void> FilePartition::look_at_file() {
  struct stat open_one{};
  if (fstat(file_, &open_one) != 0) return system_error("cannot read " + name_, errno);
  if (open_one.st_size < reader_->end()) {
    return changed(
        "became shorter while it was read: " + grouped(static_cast<std::uint64_t>(reader_->end())) +
        " bytes were read, it has " + grouped(static_cast<std::uint64_t>(open_one.st_size)) +
        " now");
  }
  // Until all of the old one is done, nobody needs to know of the new one.
  if (!options_.follow || stored_.watermark < reader_->position()) return {};
  struct stat named{};
  const bool is_there = stat(path_.c_str(), &named) == 0;
  if (is_there && named.st_ino == open_one.st_ino && named.st_dev == open_one.st_dev) return {};
  return Error{ErrorCode::kConflict,
               name_ + (is_there ? " is another file now" : " is gone") +
                   ": the one that was followed was renamed or removed; all of its lines are done" +
                   "\n  try: --fresh, to follow the new one from its beginning"};
}

// ---- lines

// True if it became a record.
Result<bool> FilePartition::take(const Line& line, std::vector<Record>& records) {
  if (open_end_ && line.offset == *open_end_) {
    open_end_.reset();
    if (line.text.empty()) return false;
    return changed("went on after its last line: that had no newline when it was read before");
  }
  const Result<bool> done = was_done_before(line);
  if (!done) return done.error();
  if (!options_.checkpoint.empty() && line.offset > starts_.back().offset) {
    starts_.push_back({line.offset, line.number});
  }
  if (*done) {
    if (!is_regular_ && line.offset >= before_.watermark) ++resumed_past_;
    return false;
  }
  if (!first_line_) {
    StableHash hash;
    hash.add(std::string_view(prefix_).substr(0, prefix_.find('\n')));
    first_line_ = hash.value();
  }
  Record& record = records.emplace_back();
  record.partition = id_;
  record.offset = line.offset;
  record.end = line.end;
  record.number = line.number;
  record.value = line.text;
  record.buffer =
      reader_->alive_bytes() > kMostAliveBytes ? copy_of(record.value) : reader_->block();
  return true;
}

// By an earlier run. What that took for a line must be one still.
Result<bool> FilePartition::was_done_before(const Line& line) const {
  const Offset text_end = line.offset + static_cast<Offset>(line.text.size());
  Offset done_to = 0;
  if (line.offset < before_.watermark) {
    done_to = before_.watermark;
  } else if (!before_.done_above.empty() && line.offset < before_.done_above.back().end) {
    const auto& map = before_.done_above;
    const auto after = std::upper_bound(
        map.begin(), map.end(), line.offset,
        [](Offset value, const OffsetRange& range) { return value < range.begin; });
    if (after != map.begin()) done_to = std::prev(after)->end;
  }
  if (line.offset >= done_to) {
    if (line.offset == before_.watermark && line.number != before_.line) {
      return changed("is another one than before: its lines are others");
    }
    return false;
  }
  if (text_end > done_to) {
    return changed("is another one than before, or went on after a last line without newline");
  }
  return true;
}

// ---- committing

Progress FilePartition::progress() const {
  return {.partition = id_, .watermark = stored_.watermark, .done_above = stored_.done_above};
}

Checkpoint::File FilePartition::with(const Progress& progress) const {
  Checkpoint::File file = stored_;
  file.prefix_bytes = std::max<std::uint64_t>(stored_.prefix_bytes, prefix_.size());
  if (file.prefix_bytes != stored_.prefix_bytes) file.prefix_hash = prefix_hash();
  file.watermark = progress.watermark;
  file.done_above = progress.done_above;
  if (progress.watermark == stored_.watermark) return file;
  // What an earlier run did may lie above what was read: only of that is it known which line it is.
  if (progress.watermark > reader_->position()) {
    file.watermark = std::max(reader_->position(), stored_.watermark);
    file.done_above.insert(file.done_above.begin(), {file.watermark, progress.watermark});
  }
  const auto start =
      std::lower_bound(starts_.begin(), starts_.end(), file.watermark,
                       [](const LineStart& one, Offset offset) { return one.offset < offset; });
  file.line = start == starts_.end() ? reader_->number() : start->number;
  return file;
}

void FilePartition::committed(Checkpoint::File file) {
  stored_ = std::move(file);
  while (!starts_.empty() && starts_.front().offset < stored_.watermark) starts_.pop_front();
  if (starts_.empty()) starts_.push_back({stored_.watermark, stored_.line});
}

std::string FilePartition::prefix_hash() const {
  StableHash hash;
  hash.add(prefix_);
  return hash.hex();
}

std::string FilePartition::unique_id_of(const Record& record) const {
  StableHash hash;
  if (first_line_) {
    hash.add_number(first_line_->low);
    hash.add_number(first_line_->high);
  }
  hash.add_number(static_cast<std::uint64_t>(record.offset));
  hash.add(record.value);
  return hash.hex();
}

// ---- how much there is

std::optional<std::uint64_t> FilePartition::size() const {
  struct stat about{};
  if (!is_regular_ || fstat(file_, &about) != 0) return std::nullopt;
  return static_cast<std::uint64_t>(about.st_size);
}

Result<std::uint64_t> FilePartition::count_lines(Offset from, Offset to) const {
  constexpr std::size_t kBytes = std::size_t{256} << 10;
  const auto buffer = std::make_unique_for_overwrite<char[]>(kBytes);
  std::uint64_t lines = 0;
  char last = '\n';
  while (from < to) {
    const std::size_t most = std::min(kBytes, static_cast<std::size_t>(to - from));
    const Result<std::size_t> got = read_at(file_, name_, buffer.get(), most, from);
    if (!got) return got.error();
    if (*got == 0) break;
    lines += static_cast<std::uint64_t>(std::count(buffer.get(), buffer.get() + *got, '\n'));
    last = buffer[*got - 1];
    from += static_cast<Offset>(*got);
  }
  return lines + (last == '\n' ? 0 : 1);
}

}  // namespace keyway
