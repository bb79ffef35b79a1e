// How fast lines of JSON are read and their keys found, alone: FileSource::poll() and json_keys(), one thread.
//
//   source_bench [MEGABYTES] [FILE]      FILE is used as it is; without, one is made in the temporary folder
//
// Prints the median and the range of five rounds. The first round, which also brings the file into the page cache, is
// not counted.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include <unistd.h>

#include "keyway/file_source.h"
#include "keyway/json_keys.h"

namespace {

constexpr int kRounds = 5;

[[noreturn]] void fail(const std::string& message) {
  std::fprintf(stderr, "source_bench: %s\n", message.c_str());
  std::exit(1);
}

// Orders of 150 to 300 bytes, with the key near the front.
void write_orders(const std::string& path, std::size_t bytes) {
  std::ofstream file(path, std::ios::binary);
  std::mt19937_64 random(1);
  std::size_t written = 0;
  for (std::size_t id = 1; written < bytes; ++id) {
    std::string line = "{\"id\":" + std::to_string(id) + ",\"user\":\"u_" +
                       std::to_string(random() % 10'000) +
                       "\",\"amount\":" + std::to_string(random() % 100'000) +
                       ".50,\"currency\":\"EUR\",\"items\":[{\"sku\":\"A-100\",\"count\":2},"
                       "{\"sku\":\"B-7\",\"count\":1}],\"note\":\"";
    line.append(20 + random() % 150, 'x');
    line += "\"}\n";
    file << line;
    written += line.size();
  }
  if (!file.flush()) fail("cannot write " + path);
}

struct Round {
  double seconds = 0;
  std::size_t records = 0;
  std::size_t bytes = 0;
};

Round read_once(const std::string& path, bool with_keys) {
  keyway::FileSource source({.paths = {path}});
  auto classify = keyway::json_keys({.key = ".user"});
  if (!classify) fail(classify.error().message);
  if (auto opened = source.open([] {}); !opened) fail(opened.error().message);
  std::vector<keyway::Record> records;
  std::vector<keyway::PartitionEvent> events;
  Round round;
  const auto begin = std::chrono::steady_clock::now();
  while (true) {
    records.clear();
    events.clear();
    const auto polled = source.poll(records, events, 256);
    if (!polled) fail(polled.error().message);
    for (keyway::Record& record : records) {
      if (!with_keys) continue;
      const auto wanted = (*classify)(record);
      if (!wanted || !*wanted || record.key->empty()) fail("a line without a key");
    }
    round.records += records.size();
    if (polled->state == keyway::Polled::kEnd) break;
  }
  round.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  round.bytes = source.position().bytes;
  return round;
}

void measure(const char* what, const std::string& path, bool with_keys) {
  std::vector<double> speeds;
  Round round = read_once(path, with_keys);
  for (int i = 0; i < kRounds; ++i) {
    round = read_once(path, with_keys);
    speeds.push_back(static_cast<double>(round.bytes) / 1e6 / round.seconds);
  }
  std::sort(speeds.begin(), speeds.end());
  std::printf(
      "%-16s %6.0f MB/s (%.0f to %.0f)  %zu bytes, %zu records, %.1f M records/s\n", what,
      speeds[kRounds / 2], speeds.front(), speeds.back(), round.bytes, round.records,
      speeds[kRounds / 2] * static_cast<double>(round.records) / static_cast<double>(round.bytes));
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t megabytes = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 256;
  std::string path = argc > 2 ? argv[2] : "";
  if (path.empty()) {
    path = (std::filesystem::temp_directory_path() /
            ("source_bench-" + std::to_string(getpid()) + ".jsonl"))
               .string();
    write_orders(path, megabytes * 1'000'000);
  }
  measure("lines", path, false);
  measure("lines and keys", path, true);
  if (argc <= 2) std::filesystem::remove(path);
}
