// One file, pipe or standard input of a FileSource: opened and compared with its checkpoint, read line by line, watched.
//
// What was done before is passed over: a file is read from its watermark on; of a pipe all is read, and let go.
//
// Thread safety: as Source says; unique_id_of() and size() from any thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/file_descriptor.h"
#include "base/stable_hash.h"
#include "keyway/file_source.h"
#include "keyway/source.h"
#include "sources/file/checkpoint.h"
#include "sources/file/line_reader.h"
#include "sources/file/readiness_watch.h"

namespace keyway {

class FilePartition {
 public:
  FilePartition(PartitionId id, std::string path, const FileSourceOptions& options,
                std::shared_ptr<BlockCount> count);
  ~FilePartition();

  // `stored`: what the checkpoint says of it.
  Result<void> open(const std::optional<Checkpoint::File>& stored, std::function<void()> wake);
  void close() { watch_.reset(); }

  // What was committed last.
  Progress progress() const;
  // kMore: there may be more at once; kIdle: when woken, or after a while; kEnd: no more.
  Result<Polled::State> poll(std::vector<Record>& records, std::size_t most);

  // What is to be stored when this is done; when it has been.
  Checkpoint::File with(const Progress& progress) const;
  void committed(Checkpoint::File file);
  const Checkpoint::File& stored() const { return stored_; }

  bool paused = false;
  bool is_at_end() const { return is_at_end_; }
  bool is_followed() const { return is_regular_ && options_.follow; }

  const std::string& name() const { return name_; }  // for messages
  std::string unique_id_of(const Record& record) const;

  std::optional<std::uint64_t> size() const;                        // of a file, now
  Result<std::uint64_t> count_lines(Offset from, Offset to) const;  // of a file
  Offset position() const { return reader_->position(); }
  std::uint64_t lines() const { return reader_->number() - 1; }  // up to there
  std::uint64_t resumed_past() const { return resumed_past_; }

 private:
  Result<void> open_file();
  Result<void> compare_beginning();
  Result<void> compare_file();
  Result<void> look_at_file();
  Result<Got> read(char* to, std::size_t most, Offset at, std::size_t& bytes);
  void remember_beginning(std::string_view bytes, Offset at);
  Result<Polled::State> reach_end(std::vector<Record>& records);
  Result<bool> take(const Line& line, std::vector<Record>& records);
  Result<bool> was_done_before(const Line& line) const;
  std::string prefix_hash() const;
  Error changed(const std::string& how) const;

  const PartitionId id_;
  const std::string path_;
  const std::string name_;
  const FileSourceOptions& options_;
  const std::shared_ptr<BlockCount> count_;
  FileDescriptor own_;  // unless it is standard input
  int file_ = 0;
  bool is_regular_ = false;
  std::unique_ptr<ReadinessWatch> watch_;
  std::optional<LineReader> reader_;

  std::string prefix_;       // the first bytes, as far as they were seen
  bool is_compared_ = true;  // the beginning is the same as before
  std::optional<StableHash::Value> first_line_;
  Checkpoint::File stored_;
  Checkpoint::File before_;  // as an earlier run left it
  // A line that had no newline when it was read: where that, and nothing else, may follow.
  std::optional<Offset> open_end_;
  std::uint64_t resumed_past_ = 0;
  bool is_at_end_ = false;

  // Which line begins where, from the committed watermark on.
  struct LineStart {
    Offset offset = 0;
    std::uint64_t number = 1;
  };
  std::deque<LineStart> starts_;
};

}  // namespace keyway
