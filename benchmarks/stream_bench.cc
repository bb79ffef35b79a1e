// What the stream engine costs and keeps: Pipeline without any input or work of its own.
//
//   stream_bench speed [--records N] [--rounds N]   a no-op handler, 10,000 keys, in order per key
//   stream_bench stuck [--records N]                the same, with the first record stuck for the whole run
//   stream_bench table [--rounds N]                 10,000 records that wait 0 to 5 ms, 16 at once, by number of keys
//
// Keys are drawn by Zipf's law. `table` holds the time against the least that the same work can take: the longest key's
// sum, or all of it over 16.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <sys/prctl.h>

#include "keyway/pipeline.h"

namespace {

using namespace keyway;
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr std::size_t kKeys = 10'000;
constexpr std::size_t kCycle = 1 << 20;

// `records` records from memory: the same million of keys over and over.
class MadeSource final : public Source {
 public:
  MadeSource(std::vector<std::string> keys, std::vector<std::uint32_t> order, Offset records)
      : keys_(std::move(keys)), order_(std::move(order)), records_(records) {}

  std::string name() const override { return "made"; }
  Result<void> open(std::function<void()>) override { return {}; }
  Result<Polled> poll(std::vector<Record>& records, std::vector<PartitionEvent>& events,
                      std::size_t most) override {
    if (!std::exchange(assigned_, true)) events.push_back({PartitionEvent::kAssigned, {}});
    if (paused_) return Polled{Polled::kIdle};
    for (; most > 0 && next_ < records_; --most, ++next_) {
      Record& record = records.emplace_back();
      record.offset = next_;
      record.end = next_ + 1;
      const auto at = static_cast<std::size_t>(next_) % order_.size();
      if (!keys_.empty()) record.key = keys_[order_[at]];
      record.value = "{}";
    }
    return Polled{next_ < records_ ? Polled::kMore : Polled::kEnd};
  }
  Result<void> commit(std::span<const Progress> progress) override {
    committed = progress.back().watermark;
    most_gaps = std::max(most_gaps, progress.back().done_above.size());
    return {};
  }
  void pause(PartitionId) override { paused_ = true; }
  void resume(PartitionId) override { paused_ = false; }

  Offset committed = 0;
  std::size_t most_gaps = 0;

 private:
  const std::vector<std::string> keys_;
  const std::vector<std::uint32_t> order_;
  const Offset records_;
  Offset next_ = 0;
  bool paused_ = false;
  bool assigned_ = false;
};

std::vector<std::string> key_names(std::size_t keys) {
  std::vector<std::string> names(keys);
  for (std::size_t i = 0; i < keys; ++i) names[i] = "user-" + std::to_string(i);
  return names;
}

std::vector<std::uint32_t> zipf_order(std::size_t keys, std::size_t records) {
  std::vector<double> weights(keys);
  for (std::size_t i = 0; i < keys; ++i) weights[i] = 1.0 / static_cast<double>(i + 1);
  std::mt19937_64 random(1);
  std::discrete_distribution<std::uint32_t> draw(weights.begin(), weights.end());
  std::vector<std::uint32_t> order(records);
  for (std::uint32_t& one : order) one = draw(random);
  return order;
}

double resident_mib() {
  std::ifstream statm("/proc/self/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  statm >> total >> resident;
  return static_cast<double>(resident) * 4096 / (1 << 20);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void run_to_end(Pipeline& pipeline) {
  const Result<PipelineEnd> end = pipeline.run_until();
  if (end.ok()) return;
  std::fprintf(stderr, "stream_bench: %s\n", end.error().message.c_str());
  std::exit(1);
}

// ---- speed

void speed(Offset records, int rounds) {
  std::vector<double> rates;
  for (int round = 0; round < rounds; ++round) {
    MadeSource source(key_names(kKeys), zipf_order(kKeys, kCycle), records);
    std::atomic<std::uint64_t> handled = 0;
    std::vector<double> memory;
    Pipeline pipeline(source, {}, [&](const Record& record) {
      // Memory at every tenth of the way, seen by whoever handles that record.
      if (record.offset % (records / 10) == records / 20) memory.push_back(resident_mib());
      handled.fetch_add(1, std::memory_order_relaxed);
    });
    const auto began = Clock::now();
    run_to_end(pipeline);
    const double seconds = Seconds(Clock::now() - began).count();
    if (handled != static_cast<std::uint64_t>(records) || source.committed != records) std::abort();
    rates.push_back(static_cast<double>(records) / seconds);
    std::sort(memory.begin(), memory.end());
    std::printf("  round %d: %.2f million records/s, memory %.1f to %.1f MiB\n", round + 1,
                rates.back() / 1e6, memory.front(), memory.back());
  }
  const auto [least, most] = std::minmax_element(rates.begin(), rates.end());
  std::printf("no-op handler, %zu Zipf keys in order: %.2f million records/s (%.2f to %.2f)\n",
              kKeys, median(rates) / 1e6, *least / 1e6, *most / 1e6);
}

// ---- stuck

void stuck(Offset records) {
  MadeSource source(key_names(kKeys), zipf_order(kKeys, kCycle), records);
  std::stop_source stop;
  std::atomic<std::uint64_t> handled = 0;
  const PipelineOptions options;
  Pipeline pipeline(source, PipelineOptions(options), [&](const Record& record) -> Task<void> {
    if (record.offset == 0) co_await sleep_for(std::chrono::hours(1));
    handled.fetch_add(1, std::memory_order_relaxed);
  });
  std::jthread end_it([&] {
    std::uint64_t before = 0;
    do {
      before = handled;
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
    } while (handled != before);
    stop.request_stop();
  });
  (void)pipeline.run_until(stop.get_token());
  std::printf("first record stuck: %llu others handled (window %zu), memory %.1f MiB, %zu ranges\n",
              static_cast<unsigned long long>(handled.load()), options.max_window, resident_mib(),
              source.most_gaps);
}

// ---- table

constexpr int kTableRecords = 10'000;
constexpr int kAtOnce = 16;

struct Work {
  std::vector<std::string> keys;
  std::vector<std::uint32_t> order;
  std::vector<std::chrono::microseconds> waits;
};

// `keys` 0: in no order.
Work make_work(std::size_t keys) {
  std::mt19937_64 random(keys + 1);
  Work work{.keys = key_names(keys), .order = {}, .waits = {}};
  for (int i = 0; i < kTableRecords; ++i) {
    work.order.push_back(keys == 0 ? 0 : static_cast<std::uint32_t>(random() % keys));
    work.waits.emplace_back(random() % 5000);
  }
  return work;
}

double least_seconds(const Work& work) {
  std::map<std::uint32_t, double> of_key;
  double all = 0;
  for (std::size_t i = 0; i < work.waits.size(); ++i) {
    const double seconds = Seconds(work.waits[i]).count();
    all += seconds;
    of_key[work.order[i]] += seconds;
  }
  double least = all / kAtOnce;
  if (work.keys.empty()) return least;
  for (const auto& [key, seconds] : of_key) least = std::max(least, seconds);
  return least;
}

enum class Waits { kCoroutine, kThread };

double measure(const Work& work, Waits kind) {
  MadeSource source(work.keys, work.order, kTableRecords);
  const PipelineOptions options{.concurrency = kAtOnce};
  const auto wait_of = [&](const Record& record) {
    return work.waits[static_cast<std::size_t>(record.offset)];
  };
  const auto coroutine = [&](const Record& record) -> Task<void> {
    co_await sleep_for(wait_of(record));
  };
  const auto plain = [&](const Record& record) { std::this_thread::sleep_for(wait_of(record)); };
  std::unique_ptr<Pipeline> pipeline;
  if (kind == Waits::kCoroutine) {
    pipeline = std::make_unique<Pipeline>(source, options, coroutine);
  } else {
    pipeline = std::make_unique<Pipeline>(source, options, plain);
  }
  const auto began = Clock::now();
  run_to_end(*pipeline);
  return Seconds(Clock::now() - began).count();
}

void table(int rounds) {
  // By default the kernel wakes sleepers up to 50 us late, whoever sleeps: one in 50 of what is measured here.
  prctl(PR_SET_TIMERSLACK, 1);
  std::printf(
      "10,000 records that wait 0 to 5 ms, 16 at once; over: the time over the least there is\n");
  std::printf("  %-10s %8s   %-26s   %-26s\n", "keys", "least", "coroutines", "threads");
  for (const std::size_t keys : {1, 2, 5, 10, 20, 100, 1'000, 10'000, 0}) {
    const Work work = make_work(keys);
    const double least = least_seconds(work);
    const std::string name = keys == 0 ? "unordered" : std::to_string(keys);
    std::printf("  %-10s %6.2f s", name.c_str(), least);
    for (const Waits kind : {Waits::kCoroutine, Waits::kThread}) {
      std::vector<double> over;
      for (int round = 0; round < rounds; ++round) over.push_back(measure(work, kind) / least);
      const auto [low, high] = std::minmax_element(over.begin(), over.end());
      std::printf("   %6.2f s  %.3f (%.3f-%.3f)", median(over) * least, median(over), *low, *high);
      std::fflush(stdout);
    }
    std::printf("\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  Offset records = 10'000'000;
  int rounds = 3;
  for (int i = 2; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--records") == 0) records = std::atoll(argv[i + 1]);
    if (std::strcmp(argv[i], "--rounds") == 0) rounds = std::atoi(argv[i + 1]);
  }
  if (what == "speed") speed(records, rounds);
  if (what == "stuck") stuck(records);
  if (what == "table") table(rounds);
}
