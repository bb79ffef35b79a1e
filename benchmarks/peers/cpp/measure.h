// What every C++ benchmark program measures with: clock, memory, counting, one JSON line.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <sched.h>
#include <unistd.h>

namespace bench {

using Nanoseconds = std::int64_t;

inline Nanoseconds now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

[[noreturn]] inline void fail(const std::string& message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  std::exit(1);
}

// The processors this process may use: one under `taskset -c 0`, where hardware_concurrency()
// still counts the whole machine. Go, the JVM and oneTBB count the same way.
inline int worker_threads() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return CPU_COUNT(&set);
}

inline std::int64_t resident_bytes() {
  std::int64_t total_pages = 0;
  std::int64_t resident_pages = 0;
  std::ifstream("/proc/self/statm") >> total_pages >> resident_pages;
  return resident_pages * sysconf(_SC_PAGESIZE);
}

// `sorted` is not empty; `fraction` is 0.5 for the median.
inline Nanoseconds percentile(const std::vector<Nanoseconds>& sorted, double fraction) {
  const double position = fraction * static_cast<double>(sorted.size() - 1);
  return sorted[static_cast<std::size_t>(position + 0.5)];
}

// Counts finished tasks and stamps the end of the last one. One object per process.
//
// A counter that all workers share costs more than a whole task of the faster executors. So each
// worker counts on a cache line of its own, and reads the clock only at every 64th task it ends,
// or when told that the end is near. The end is exact to 64 tasks.
//
// Thread safety: every method from any thread.
class Tally {
 public:
  static constexpr std::uint32_t kStampEvery = 64;

  void count_one(bool near_the_end) noexcept {
    Slot& slot = own_slot();
    const std::uint64_t count = slot.count.load(std::memory_order_relaxed) + 1;
    if (near_the_end || count % kStampEvery == 0) {
      slot.last_end.store(now_ns(), std::memory_order_relaxed);
    }
    slot.count.store(count, std::memory_order_release);  // pairs with total()
  }

  [[nodiscard]] std::uint64_t total() const noexcept {
    std::uint64_t sum = 0;
    for (const Slot& slot : slots_) sum += slot.count.load(std::memory_order_acquire);
    return sum;
  }

  // REQUIRES: nobody counts. Threads that have a slot keep it.
  void reset() noexcept {
    for (Slot& slot : slots_) slot.count.store(0, std::memory_order_relaxed);
  }

  // REQUIRES: total() has returned the number of tasks.
  [[nodiscard]] Nanoseconds last_end() const noexcept {
    Nanoseconds last = 0;
    for (const Slot& slot : slots_) {
      last = std::max(last, slot.last_end.load(std::memory_order_relaxed));
    }
    return last;
  }

 private:
  struct alignas(64) Slot {
    std::atomic<std::uint64_t> count{0};
    std::atomic<Nanoseconds> last_end{0};
  };
  static constexpr std::size_t kMaxThreads = 64;

  Slot& own_slot() noexcept {
    if (slot_of_thread_ == nullptr) {
      const std::size_t index = used_.fetch_add(1, std::memory_order_relaxed);
      if (index >= kMaxThreads) fail("more than 64 worker threads: raise Tally::kMaxThreads");
      slot_of_thread_ = &slots_[index];
    }
    return *slot_of_thread_;
  }

  static constinit inline thread_local Slot* slot_of_thread_ = nullptr;
  std::atomic<std::size_t> used_{0};
  std::array<Slot, kMaxThreads> slots_;
};

// Builds one line of JSON. Names and text are plain words: nothing is escaped.
class JsonLine {
 public:
  void add(std::string_view name, std::string_view text) {
    append(name, '"' + std::string(text) + '"');
  }
  void add(std::string_view name, const char* text) { add(name, std::string_view(text)); }
  void add(std::string_view name, bool value) { append(name, value ? "true" : "false"); }
  void add(std::string_view name, std::int64_t value) { append(name, std::to_string(value)); }
  void add(std::string_view name, double value) {
    std::array<char, 64> digits{};
    std::snprintf(digits.data(), digits.size(), "%.1f", value);
    append(name, digits.data());
  }

  void print() const { std::printf("{%s}\n", fields_.c_str()); }

 private:
  void append(std::string_view name, const std::string& value) {
    if (!fields_.empty()) fields_ += ',';
    fields_ += '"' + std::string(name) + "\":" + value;
  }

  std::string fields_;
};

}  // namespace bench
