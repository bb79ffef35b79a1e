// The right to run under a key: one of `limit` slots that all processes of a machine share.
//
//   KeySlot slot(folder, "db");
//   Result<SlotOutcome> outcome = slot.take({.limit = 2, .name = "pg_dump", .deadline = in_a_minute});
//   if (outcome && outcome->kind == SlotOutcome::kTaken) ...;   // given back by the destructor
//
// Guarantees:
//   (1) Who takes a slot sees fewer than its own limit held at that instant, whatever limits the
//       others came with.
//   (2) Waiting processes are served in the order they came; whoever comes while one waits stands
//       behind it. One that gives up or dies leaves the line.
//   (3) A slot is held by the description descriptor() and free when the last process that has it
//       is gone, or with release() at once. So a command that inherits it keeps its slot even if
//       the process that took it is killed.
//   (4) The file of a key that nobody uses is removed by the last one to leave in order.
// Not guaranteed: (1) on a network file system, or if the file is removed or replaced by others.
// A waiting process that is stopped (SIGSTOP) holds up those behind it.
//
// Thread safety: one thread. take() must not run on two threads of a process at once.
// Lifetime: not after its folder.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exec/interrupts.h"
#include "exec/key_file.h"

namespace keyway::exec {

struct Holder {
  int pid = 0;       // 0: not known
  std::string name;  // of the command
  std::chrono::nanoseconds age{0};
  bool is_gone = false;  // what is left are processes that it started
};

// Of a key, as somebody who wants a slot sees it.
struct Occupancy {
  std::vector<Holder> holders;
  int waiting = 0;  // in front
};

struct SlotRequest {
  using Clock = Interrupts::Clock;

  int limit = 1;
  std::string name;  // of the command, for Holder
  bool waits = true;
  std::optional<Clock::time_point> deadline = {};  // none: for ever
  // Told once who is in the way, if it waits as long as that.
  std::optional<Clock::time_point> notice_at = {};
  std::function<void(const Occupancy&)> notice = {};
};

struct SlotOutcome {
  enum Kind { kTaken, kFull, kInterrupted } kind = kTaken;
  int signal = 0;       // kInterrupted: by which
  Occupancy occupancy;  // kFull: who is in the way
};

class KeySlot {
 public:
  KeySlot(const SlotFolder& folder, std::string_view key);
  ~KeySlot() { release(); }
  KeySlot(const KeySlot&) = delete;
  KeySlot& operator=(const KeySlot&) = delete;

  // Once. Fails if a file cannot be used, or if its mutex is not to be had for ten seconds.
  Result<SlotOutcome> take(const SlotRequest& request);
  void release();

  // REQUIRES, for all below: it is taken.
  int number() const { return slot_; }  // from 0, below the limit
  int descriptor() const { return slot_file_->descriptor(); }
  // Where the id of the command that runs with it is to be written, also by the command itself. Null:
  // there is no such place.
  std::int32_t* command_record() const { return mapped_ ? &mapped_->command_pid : nullptr; }

 private:
  enum class Step { kGo, kOver, kInterrupted };

  std::string path() const { return folder_.path + "/" + file_name_; }
  Result<void> lock_mutex(Interrupts& interrupts);
  Result<void> open_and_lock(Interrupts& interrupts);
  Result<bool> take_free_slot(const SlotRequest& request);
  Result<SlotOutcome> wait_in_line(const SlotRequest& request, Interrupts& interrupts);
  template <class Wait>
  Result<Step> patiently(const SlotRequest& request, Interrupts& interrupts, const Wait& wait);
  std::vector<SlotRecord> holders() const;
  Occupancy occupancy() const;

  const SlotFolder& folder_;
  const std::string file_name_;
  std::optional<KeyFile> file_;       // the mutex and the ticket: this process's alone
  std::optional<KeyFile> slot_file_;  // the slot: the command's too
  std::optional<KeyFile::Ticket> ticket_;
  int slot_ = -1;
  MappedRecord mapped_;  // the slot's
  bool noticed_ = false;
};

}  // namespace keyway::exec
