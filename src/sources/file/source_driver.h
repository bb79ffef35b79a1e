// For tests: polls a FileSource as a pipeline would, and remembers what came.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/file_descriptor.h"
#include "keyway/file_source.h"

namespace keyway {

class SourceDriver {
 public:
  explicit SourceDriver(
      FileSourceOptions options, std::function<void()> wake = [] {})
      : source(std::move(options)), opened(source.open(std::move(wake))) {}

  bool is_open() const { return opened.ok(); }
  // Why it could not be opened, or read.
  std::string error() const {
    if (!opened) return opened.error().message;
    return failure ? failure->message : "";
  }
  ErrorCode code() const { return opened ? failure->code : opened.error().code; }

  // One poll; the new records are at the end of `records`. An error is kept in `failure`.
  Polled::State poll(std::size_t most = 100) {
    events.clear();
    const Result<Polled> polled = source.poll(records, events, most);
    if (!polled) {
      failure = polled.error();
      return Polled::kEnd;
    }
    for (PartitionEvent& event : events) {
      EXPECT_EQ(event.kind, PartitionEvent::kAssigned);
      assigned[event.progress.partition] = event.progress;
    }
    idle_for = polled->idle_for;
    return polled->state;
  }
  // Until there is nothing more, now or ever.
  Polled::State poll_all(std::size_t most = 100) {
    Polled::State state = Polled::kMore;
    while (state == Polled::kMore) state = poll(most);
    return state;
  }
  std::vector<std::string> values() const {
    std::vector<std::string> all;
    for (const Record& record : records) all.emplace_back(record.value);
    return all;
  }
  Result<void> commit(Offset watermark, GapMap done_above = {}, PartitionId partition = 0) {
    const Progress progress{partition, watermark, std::move(done_above)};
    return source.commit({&progress, 1});
  }

  FileSource source;
  const Result<void> opened;
  std::optional<Error> failure;
  std::vector<Record> records;
  std::vector<PartitionEvent> events;
  std::map<PartitionId, Progress> assigned;
  Duration idle_for{};
};

// Puts a text in the place of standard input: at most what a pipe holds, 64 KiB.
class StandardInput {
 public:
  explicit StandardInput(const std::string& text) : before_(dup(0)) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    const FileDescriptor read(ends[0]);
    const FileDescriptor write(ends[1]);
    EXPECT_EQ(::write(write.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
    dup2(read.get(), 0);
  }
  ~StandardInput() { dup2(before_.get(), 0); }

 private:
  const FileDescriptor before_;
};

}  // namespace keyway
