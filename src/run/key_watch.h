// What the keys of a run do: how many there were, how many have a record that waits, and which one kept the run from
// being shorter.
//
// A record enters when it is read, starts with its first try, and leaves when it is done with. The time of its tries is
// its key's, because no other record of that key runs meanwhile: a key whose tries took most of the run is the one that
// bound it.
//
// Memory: some 50 bytes for each key that has a record now, 8 to 16 for each that ever had one, and the times of 256.
//
// Thread safety: one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/hash_key.h"
#include "base/hot_keys.h"
#include "jobs/hash_set.h"
#include "keyway/scheduler.h"

namespace keyway::run {

class KeyWatch {
 public:
  void enter(std::string_view key);
  void start(std::string_view key);
  void add_time(std::string_view key, Duration time, bool is_last);
  // `started`: it had begun.
  void leave(std::string_view key, bool started);

  std::uint64_t seen() const { return seen_.size(); }
  std::uint64_t waiting() const { return waiting_; }

  struct Bound {
    std::string key;
    std::uint64_t records = 0;
    Duration time{0};
  };
  // The key with the longest time.
  std::optional<Bound> longest() const;

 private:
  struct Records {
    std::uint32_t all = 0;
    std::uint32_t started = 0;
    bool waits() const { return all > started; }
  };
  // Hashes are spread already.
  struct AsItIs {
    std::size_t operator()(std::uint64_t hash) const { return hash; }
  };
  template <class Change>
  void change(std::string_view key, Change what);

  static constexpr std::size_t kKept = 256;

  std::unordered_map<std::uint64_t, Records, AsItIs> now_;  // by hash: two keys may share one
  jobs::HashSet seen_;
  std::uint64_t waiting_ = 0;
  HotKeys times_{kKept};                                                    // in microseconds
  std::vector<std::uint64_t> records_ = std::vector<std::uint64_t>(kKept);  // by slot of times_
};

}  // namespace keyway::run
