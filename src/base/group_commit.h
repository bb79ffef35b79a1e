// Threads that each want something stored for good share the wait for it.
//
//   GroupCommit<std::string> lines([&](std::vector<std::string>& all) { return append_and_sync(all); });
//   Result<void> stored = lines.add("a line");      // from any thread
//
// One of those who wait stores what all of them brought, while the next ones gather.
//
// Guarantees:
//   (1) add() returns when the entry's own group was stored, or failed, as a whole.
//   (2) Groups are stored one after the other, entries in the order of their add(); an entry is in one group.
// A group is at most one entry of each thread. What `commit` throws ends the program.
//
// Thread safety: every method from any thread; `commit` is called by one at a time.
// Lifetime: outlives its calls.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "keyway/error.h"

namespace keyway {

template <class Entry>
class GroupCommit {
 public:
  using Commit = std::function<Result<void>(std::vector<Entry>& entries)>;

  explicit GroupCommit(Commit commit) : commit_(std::move(commit)) {}

  Result<void> add(Entry entry) {
    MutexLock lock(mutex_);
    if (gathering_ == nullptr) gathering_ = std::make_shared<Group>();
    const std::shared_ptr<Group> mine = gathering_;
    mine->entries.push_back(std::move(entry));
    while (!mine->ended) {
      if (busy_) {
        changed_.wait(mutex_);
      } else {
        // Nobody stores, so mine is the one that gathers.
        gathering_ = nullptr;
        store(*mine);
      }
    }
    return mine->result;
  }

 private:
  struct Group {
    std::vector<Entry> entries;
    bool ended = false;
    Result<void> result;
  };

  void store(Group& group) KEYWAY_REQUIRES(mutex_) {
    busy_ = true;
    mutex_.unlock();
    Result<void> result = commit_guarded(group.entries);
    mutex_.lock();
    group.result = std::move(result);
    group.ended = true;
    busy_ = false;
    changed_.notify_all();
  }
  Result<void> commit_guarded(std::vector<Entry>& entries) noexcept { return commit_(entries); }

  const Commit commit_;
  Mutex<> mutex_;
  CondVar changed_;
  std::shared_ptr<Group> gathering_ KEYWAY_GUARDED_BY(mutex_);
  bool busy_ KEYWAY_GUARDED_BY(mutex_) = false;
};

}  // namespace keyway
