#include "keyway/file_source.h"

#include <algorithm>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

#include "base/replace_file.h"
#include "keyway/detail/check.h"
#include "sources/file/checkpoint.h"
#include "sources/file/file_partition.h"

namespace keyway {

namespace {

constexpr std::uint64_t kMostCountedBytes = std::uint64_t{1} << 30;
// A followed file is looked at so often; what can be waited for wakes the pipeline.
constexpr Duration kLookInterval = std::chrono::milliseconds(100);
constexpr Duration kIdle = std::chrono::seconds(1);

Error refused(const std::string& what) { return {ErrorCode::kInvalidArgument, what}; }

Result<void> check(const std::vector<std::string>& paths) {
  if (paths.empty()) return refused("no file to read\n  try: a path, or - for standard input");
  std::set<std::string_view> seen;
  for (const std::string& path : paths) {
    if (path.empty()) return refused("the name of a file is empty");
    if (!seen.insert(path).second) return refused(path + " is named twice");
  }
  return {};
}

}  // namespace

FileSource::FileSource(FileSourceOptions options) : options_(std::move(options)) {}
FileSource::~FileSource() = default;

std::string FileSource::name() const {
  if (options_.paths.empty()) return "no file";
  std::string name = options_.paths.front() == "-" ? "stdin" : options_.paths.front();
  if (options_.paths.size() == 1) return name;
  return name + " and " + std::to_string(options_.paths.size() - 1) + " more";
}

std::string FileSource::place_of(const Record& record) const {
  return partitions_[static_cast<std::size_t>(record.partition)]->name() + ":" +
         std::to_string(record.number);
}

std::string FileSource::id_of(const Record& record) const {
  return "f" + (record.partition == 0 ? std::string() : std::to_string(record.partition)) + ":" +
         std::to_string(record.number);
}

std::string FileSource::unique_id_of(const Record& record) const {
  return partitions_[static_cast<std::size_t>(record.partition)]->unique_id_of(record);
}

std::optional<Offset> FileSource::end_of(PartitionId partition) const {
  const auto size = partitions_[static_cast<std::size_t>(partition)]->size();
  if (!size) return std::nullopt;
  return static_cast<Offset>(*size);
}

// ---- opening

Result<void> FileSource::open(std::function<void()> wake) {
  KEYWAY_CHECK(partitions_.empty(), "a FileSource is opened once");
  if (Result<void> checked = check(options_.paths); !checked) return checked;
  std::optional<Checkpoint> stored;
  if (!options_.checkpoint.empty()) {
    Result<std::optional<Checkpoint>> read = read_checkpoint(options_.checkpoint);
    if (!read) return read.error();
    stored = *std::move(read);
  }
  if (stored && stored->settings != storable(options_.settings)) {
    return Error{ErrorCode::kConflict, options_.checkpoint +
                                           " was made with other settings: " + stored->settings +
                                           "; now they are " + options_.settings +
                                           "\n  try: the same settings, or --fresh to begin again"};
  }
  if (stored && stored->files.size() != options_.paths.size()) {
    return Error{ErrorCode::kConflict,
                 options_.checkpoint + " is of " + std::to_string(stored->files.size()) +
                     " files, not of " + std::to_string(options_.paths.size()) +
                     "\n  try: the same files, or --fresh to begin again"};
  }
  resumed_ = stored.has_value();
  const auto count = std::make_shared<BlockCount>(0);
  for (std::size_t i = 0; i < options_.paths.size(); ++i) {
    auto& partition = partitions_.emplace_back(std::make_unique<FilePartition>(
        static_cast<PartitionId>(i), options_.paths[i], options_, count));
    const auto before = stored ? std::optional(stored->files[i]) : std::nullopt;
    if (Result<void> opened = partition->open(before, wake); !opened) return opened;
  }
  if (Result<void> counted = count_all(); !counted) return counted;
  publish_position();
  return {};
}

Result<void> FileSource::count_all() {
  if (options_.follow) return {};
  std::uint64_t bytes = 0;
  for (const auto& partition : partitions_) {
    const std::optional<std::uint64_t> size = partition->size();
    if (!size) return {};
    bytes += *size;
  }
  total_bytes_ = bytes;
  if (bytes >= kMostCountedBytes) return {};
  std::uint64_t lines = 0;
  for (const auto& partition : partitions_) {
    const Result<std::uint64_t> counted =
        partition->count_lines(0, std::numeric_limits<Offset>::max());
    if (!counted) return counted.error();
    lines += *counted;
  }
  total_records_ = lines;
  return {};
}

void FileSource::close() {
  for (const auto& partition : partitions_) partition->close();
}

// ---- reading

Result<Polled> FileSource::poll(std::vector<Record>& records, std::vector<PartitionEvent>& events,
                                std::size_t most) {
  if (!std::exchange(announced_, true)) {
    for (const auto& partition : partitions_) {
      events.push_back({PartitionEvent::kAssigned, partition->progress()});
    }
  }
  const std::size_t full = records.size() + most;
  const std::size_t count = partitions_.size();
  KEYWAY_CHECK(count > 0, "a FileSource is opened before it is read");
  bool more = false;
  bool all_ended = true;
  Polled polled{.state = Polled::kIdle, .idle_for = kIdle};
  for (std::size_t i = 0; i < count; ++i) {
    FilePartition& partition = *partitions_[(first_ + i) % count];
    if (partition.paused) {
      all_ended = all_ended && partition.is_at_end();
      continue;
    }
    // An equal part for each of those that are still to come.
    const std::size_t left = full - records.size();
    const Result<Polled::State> state =
        left == 0 ? Polled::kMore : partition.poll(records, (left + count - i - 1) / (count - i));
    if (!state) return state.error();
    more = more || *state == Polled::kMore;
    all_ended = all_ended && *state == Polled::kEnd;
    if (*state == Polled::kIdle && partition.is_followed()) polled.idle_for = kLookInterval;
  }
  first_ = (first_ + 1) % count;
  publish_position();
  if (more) polled.state = Polled::kMore;
  if (all_ended) polled.state = Polled::kEnd;
  return polled;
}

void FileSource::pause(PartitionId partition) {
  partitions_[static_cast<std::size_t>(partition)]->paused = true;
}

void FileSource::resume(PartitionId partition) {
  partitions_[static_cast<std::size_t>(partition)]->paused = false;
}

// ---- committing

Result<void> FileSource::commit(std::span<const Progress> progress) {
  Checkpoint checkpoint{.settings = storable(options_.settings), .files = {}};
  for (const auto& partition : partitions_) checkpoint.files.push_back(partition->stored());
  for (const Progress& one : progress) {
    const auto index = static_cast<std::size_t>(one.partition);
    checkpoint.files[index] = partitions_[index]->with(one);
  }
  if (!options_.checkpoint.empty()) {
    if (Result<void> written = replace_file(options_.checkpoint, to_text(checkpoint)); !written) {
      return written;
    }
  }
  for (std::size_t i = 0; i < partitions_.size(); ++i) {
    partitions_[i]->committed(std::move(checkpoint.files[i]));
  }
  return {};
}

// ---- progress

void FileSource::publish_position() {
  std::uint64_t bytes = 0;
  std::uint64_t records = 0;
  std::uint64_t resumed_past = 0;
  for (const auto& partition : partitions_) {
    bytes += static_cast<std::uint64_t>(partition->position());
    records += partition->lines();
    resumed_past += partition->resumed_past();
  }
  // Each for itself: no more is said than a moment's look.
  bytes_.store(bytes, std::memory_order_relaxed);
  records_.store(records, std::memory_order_relaxed);
  resumed_past_.store(resumed_past, std::memory_order_relaxed);
}

FileSource::Position FileSource::position() const {
  return {.bytes = bytes_.load(std::memory_order_relaxed),
          .total_bytes = total_bytes_,
          .records = records_.load(std::memory_order_relaxed),
          .total_records = total_records_,
          .resumed_past = resumed_past_.load(std::memory_order_relaxed),
          .resumed = resumed_};
}

}  // namespace keyway
