// A second process that ends what this one started, should this one be killed.
//
// The kernel kills a child whose parent is gone (PR_SET_PDEATHSIG), but not what the child started:
// after kill -9 of a program that runs `sh -c "a; b"`, the shell is gone and `a` goes on. The
// guardian has nothing to do but to wait for the end of its parent; then it sends SIGKILL to every
// process group in a table that both share, and ends.
//
//   Guardian guardian(8);
//   Guardian::Entry entry = guardian.enter();   // spawn_child({.group_record = entry.record()})
//   // `entry` goes when the process has been reaped
//
// Not guaranteed: that it reaches a process that has left its group (setsid, job control).
//
// Thread safety: one thread.
// Lifetime: outlives its entries; the destructor ends the guardian without harm to anybody.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "base/file_descriptor.h"

namespace keyway {

class Guardian {
 public:
  class Entry {
   public:
    Entry() = default;
    Entry(Entry&& other) noexcept
        : guardian_(std::exchange(other.guardian_, nullptr)), record_(other.record_) {}
    Entry& operator=(Entry&& other) noexcept {
      std::swap(guardian_, other.guardian_);
      std::swap(record_, other.record_);
      return *this;
    }
    ~Entry() {
      if (guardian_ != nullptr) guardian_->leave(record_);
    }
    int* record() const { return record_; }  // null: the table is full

   private:
    friend class Guardian;
    Entry(Guardian& guardian, int* record) : guardian_(&guardian), record_(record) {}
    Guardian* guardian_ = nullptr;
    int* record_ = nullptr;
  };

  // Throws Exception (kIo) if the system gives no memory or process.
  explicit Guardian(std::size_t most_groups);
  ~Guardian();
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

  Entry enter();

 private:
  void leave(int* record);

  const std::size_t size_;
  int* groups_ = nullptr;  // in memory that both processes share; 0: none
  std::vector<int*> free_;
  FileDescriptor lifeline_;  // closed when this process ends, by whatever
  pid_t pid_ = -1;
};

}  // namespace keyway
