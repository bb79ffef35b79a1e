// Whether a limit that changes while tasks run is kept, counted by the tasks themselves.
//
// A task that was submitted after a change of the limit was complete begins under the new limit: there are never more
// tasks inside than that, itself included, until the next change begins. Tasks that were submitted before may have
// begun under the old limit, and are counted but not judged.
//
//   submitter:  const std::uint64_t number = oracle.next_number();   // before it submits
//   task:       oracle.begin(number); ...; oracle.end();
//   changer:    oracle.change(limit, [&] { executor.set_limit("a", limit); });   // one thread
//
// Thread safety: every method from any thread, but change() from one.
#pragma once

#include <atomic>
#include <cstdint>

namespace keyway {

class LimitOracle {
 public:
  explicit LimitOracle(std::uint32_t limit) { begin_phase(limit); }

  std::uint64_t next_number() { return numbers_.fetch_add(1); }

  void begin(std::uint64_t number) {
    const std::uint64_t phase = phase_.load();
    const std::uint32_t inside = inside_.fetch_add(1) + 1;
    if (phase == kChanging || number < first_of(phase)) return;
    if (phase_.load() != phase) return;  // a change began before the count
    judged_.fetch_add(1);
    if (inside > limit_of(phase)) exceeded_.fetch_add(1);
  }
  void end() { inside_.fetch_sub(1); }

  template <class Change>
  void change(std::uint32_t limit, Change change) {
    phase_ = kChanging;
    change();
    begin_phase(limit);
  }

  std::uint64_t judged() const { return judged_; }
  std::uint64_t exceeded() const { return exceeded_; }

 private:
  // The limit (8 bits), the number of the phase (16), and the first number that is judged (40).
  static constexpr std::uint64_t kChanging = 0;
  static std::uint32_t limit_of(std::uint64_t phase) { return phase & 0xff; }
  static std::uint64_t first_of(std::uint64_t phase) { return phase >> 24; }
  void begin_phase(std::uint32_t limit) {
    phase_ = numbers_.load() << 24 | std::uint64_t{++phases_} << 8 | limit;
  }

  std::uint16_t phases_ = 0;
  std::atomic<std::uint64_t> phase_{kChanging};
  std::atomic<std::uint64_t> numbers_{0};
  std::atomic<std::uint32_t> inside_{0};
  std::atomic<std::uint64_t> judged_{0};
  std::atomic<std::uint64_t> exceeded_{0};
};

}  // namespace keyway
