// The file of one key. Who runs and who waits is not written in it but locked: a lock on a byte is
// owned by an open file description, and the kernel drops it with the last process that has the
// description, however that ended.
//
// Locked bytes; they lie far behind what is written:
//   0            the mutex: held for some microseconds by whoever changes anything
//   2^32 + n     slot n, from 0: held by who runs
//   2^40 + t     ticket t: held by who waits. Tickets ascend, so the lowest is first in line
// Written, in the byte order of the machine, which the file never leaves:
//   0            8 bytes  "keyway1\n"
//   8            8 bytes  the next ticket
//   64 + 64 n    SlotRecord: what is shown of the holder of slot n
//
// Thread safety: one thread at a time; two objects are two owners, also in one process.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "exec/slot_folder.h"
#include "keyway/error.h"

namespace keyway::exec {

// Says who is to be shown and watched; nothing is decided by it.
struct SlotRecord {
  std::int32_t pid = 0;          // who took the slot
  std::int32_t command_pid = 0;  // what runs with it
  std::int64_t since_ns = 0;     // CLOCK_BOOTTIME, which nobody sets
  char name[48] = {};            // of the command; ends with 0
};
static_assert(sizeof(SlotRecord) == 64);

struct UnmapRecord {
  void operator()(SlotRecord* record) const;
};
using MappedRecord = std::unique_ptr<SlotRecord, UnmapRecord>;

// Of CLOCK_BOOTTIME.
std::chrono::nanoseconds time_since_boot();

class KeyFile {
 public:
  using Ticket = std::uint64_t;

  // Makes it if it is not there.
  static Result<KeyFile> open(const SlotFolder& folder, const std::string& name);

  int descriptor() const { return file_.get(); }
  bool is_removed() const;
  bool is_same_file(const KeyFile& other) const;
  // Its description gets a number that scripts do not use for their own.
  void use_high_descriptor();

  // 0, or errno: EAGAIN (without waiting), EINTR, or what is wrong with the file system.
  int lock_mutex(bool waits);
  void unlock_mutex();

  // REQUIRES: the mutex. Writes the header.
  Result<Ticket> take_ticket();
  void drop_ticket(Ticket ticket);
  // 0 when every lower ticket is gone, or errno: EINTR.
  int wait_for_tickets_before(Ticket ticket);
  int count_tickets_before(Ticket ticket) const;  // but for its own
  int count_tickets() const;

  // 0, or errno: EAGAIN, another has it.
  int take_slot(int slot);
  void drop_slot(int slot);
  // Those that others have, in ascending order.
  std::vector<int> held_slots() const;

  SlotRecord record(int slot) const;
  void write_record(int slot, const SlotRecord& record);
  // In memory that is the file, so that a child can write it before its program runs.
  // REQUIRES: write_record(). Null: the system has no memory to give.
  MappedRecord map_record(int slot) const;

 private:
  KeyFile(FileDescriptor file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}

  FileDescriptor file_;
  std::string path_;
};

}  // namespace keyway::exec
