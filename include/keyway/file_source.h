// Lines of files, standard input or pipes, as records without keys; with a checkpoint, from where an earlier run came to.
//
//   FileSource source({.paths = {"orders.jsonl"}, .checkpoint = "orders.jsonl.keyway/checkpoint"});
//   Pipeline pipeline(source, {.classify = *json_keys({.key = ".user"})}, handler);
//
// Each path is a partition. A record is a line without its "\n" or "\r\n"; its offset is where it begins, in bytes, its
// end where the next one does, its number that of the line. A last line without a newline is a record too, but not with
// `follow`, where the rest of it may still come.
//
// Guarantees:
//   (1) poll() never waits: neither for a file to grow nor for a pipe to bring something.
//   (2) The checkpoint is replaced as a whole, and on the disk when commit() returns. One that is damaged, or belongs to
//       other files or settings, is refused with kConflict: none is half believed.
//   (3) A file that is shorter than what was read of it, or begins otherwise than before (its first 64 KiB are
//       compared), is refused with kConflict. With `follow`, so is one in whose place another has come, once all of the
//       old one is committed.
//   (4) Memory: records share blocks of 64 KiB. When more than 64 MiB of blocks are kept alive by records, further ones
//       have copies of their own: so there is never more than that and what the lines themselves need (up to three times
//       the longest, while it is read). With a checkpoint, 16 bytes for each line above the last committed watermark.
// Not guaranteed: that a file is known again which was cut and has grown beyond what was read of it, while it was read.
//
// What is read again after a restart from standard input or a pipe must be the same bytes from their beginning; what
// is done of them is passed over.
//
// Thread safety: as Source says; place_of(), id_of(), unique_id_of(), end_of() and position() from any thread.
// Lifetime: as Source says; records may outlive it.
#pragma once

#include "keyway/detail/require_cpp20.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "keyway/source.h"

namespace keyway {

class FilePartition;

struct FileSourceOptions {
  std::vector<std::string> paths{};  // each is a partition, in this order; "-": standard input
  bool follow = false;               // go on at the end, while it is appended to
  std::string checkpoint{};          // the file that commit() writes; empty: nothing is kept
  std::string settings{};            // what else the checkpoint depends on, as the key expression
  std::size_t max_line_bytes = std::size_t{256} << 20;
};

class FileSource final : public Source {
 public:
  explicit FileSource(FileSourceOptions options);
  ~FileSource() override;
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;

  std::string name() const override;  // "orders.jsonl", "orders.jsonl and 2 more"
  std::string place_of(const Record& record) const override;  // "orders.jsonl:1042"
  std::string id_of(const Record& record) const override;     // "f:1042"; of further files "f1:7"
  std::string unique_id_of(const Record& record) const override;  // 32 digits

  Result<void> open(std::function<void()> wake) override;
  Result<Polled> poll(std::vector<Record>& records, std::vector<PartitionEvent>& events,
                      std::size_t most) override;
  Result<void> commit(std::span<const Progress> progress) override;
  void pause(PartitionId partition) override;
  void resume(PartitionId partition) override;
  std::optional<Offset> end_of(PartitionId partition) const override;
  void close() override;

  // How far reading has come in all files, what an earlier run did included: for progress, after open().
  struct Position {
    std::uint64_t bytes = 0;
    std::optional<std::uint64_t> total_bytes{};  // known of files that are not followed
    std::uint64_t records = 0;
    std::optional<std::uint64_t> total_records{};  // and only if they have less than 1 GiB
    std::uint64_t resumed_past =
        0;                 // records that an earlier run did; of pipes, as far as they were passed
    bool resumed = false;  // there was a checkpoint
  };
  Position position() const;

 private:
  Result<void> count_all();
  void publish_position();

  const FileSourceOptions options_;
  std::vector<std::unique_ptr<FilePartition>> partitions_;
  std::size_t first_ = 0;  // whose turn it is
  bool announced_ = false;
  bool resumed_ = false;

  // For position().
  std::atomic<std::uint64_t> bytes_{0};
  std::atomic<std::uint64_t> records_{0};
  std::atomic<std::uint64_t> resumed_past_{0};
  std::optional<std::uint64_t> total_bytes_;
  std::optional<std::uint64_t> total_records_;
};

}  // namespace keyway
