// Several records that are handled at once: see Pipeline.
//
// A handler that takes a Batch gives an outcome for each of its records, in their order (records without one are tried
// again; if there are more outcomes than records, all are); or one for all of them, or
// nothing, which is done for all. Whoever is to be tried again comes again in a later batch, perhaps with others.
//
// Thread safety: as a const std::vector. Lifetime: until the handler has ended.
#pragma once

#include "keyway/detail/require_cpp20.h"

#include <cstddef>
#include <span>
#include <utility>

#include "keyway/record.h"
#include "keyway/scheduler.h"

namespace keyway {

struct BatchOptions {
  enum Kind {
    kDistinctKeys,  // no two records of a key of which one runs at a time, as by default
    kOneKey,        // of one key, in order; with Order::kPartition, of one partition
  } of = kDistinctKeys;
  int most = 100;  // records; at least 1
  // kDistinctKeys: how long the first may wait for others; at least 0. Records do not wait for others
  // once their partition is revoked or the run is to end.
  Duration linger = std::chrono::milliseconds(5);
};

class Batch {
 public:
  struct Member {
    const Record* record = nullptr;
    Attempt attempt{};
  };

  explicit Batch(std::span<const Member> members) : members_(members) {}

  std::size_t size() const { return members_.size(); }
  const Record& operator[](std::size_t index) const { return *members_[index].record; }
  const Attempt& attempt(std::size_t index) const { return members_[index].attempt; }

  class Iterator {
   public:
    explicit Iterator(const Member* at) : at_(at) {}
    const Record& operator*() const { return *at_->record; }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    bool operator==(const Iterator&) const = default;

   private:
    const Member* at_;
  };
  Iterator begin() const { return Iterator(members_.data()); }
  Iterator end() const { return Iterator(members_.data() + members_.size()); }

 private:
  std::span<const Member> members_;
};

}  // namespace keyway
