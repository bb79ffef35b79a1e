// Handles a file of orders: many users at once, each user's orders one after the other. It is stopped half-way; the second
// run goes on where the first was.
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <mutex>
#include <stop_token>
#include <string>

#include "keyway/dead_letter_file.h"
#include "keyway/file_source.h"
#include "keyway/json_keys.h"
#include "keyway/pipeline.h"

namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr int kOrders = 500;

// How many orders of each user were billed, and whether any came out of order.
struct Ledger {
  void bill(const std::string& user, int order) {
    const std::lock_guard lock(mutex);
    in_order = in_order && last[user] < order;
    last[user] = order;
    ++billed;
  }
  std::mutex mutex;
  std::map<std::string, int> last;
  int billed = 0;
  bool in_order = true;
};

keyway::Result<keyway::PipelineEnd> run(const fs::path& folder, Ledger& ledger, int stop_after) {
  keyway::FileSource source(
      {.paths = {folder / "orders.jsonl"}, .checkpoint = folder / "checkpoint"});
  auto keys = keyway::json_keys({.key = ".user"});
  if (!keys) return keys.error();
  std::stop_source stop;
  std::atomic<int> handled = 0;
  // A coroutine: sixteen orders wait for their banks at once, and no thread does.
  const auto bill = [&](const keyway::Record& record) -> keyway::Task<keyway::Outcome> {
    const int order = static_cast<int>(record.number);
    co_await keyway::sleep_for(1ms);
    if (order % 100 == 50) co_return keyway::permanent_failure("the card is stolen");
    ledger.bill(std::string(*record.key), order);
    if (++handled == stop_after) stop.request_stop();
    co_return keyway::done();
  };
  keyway::Pipeline pipeline(source,
                            {.concurrency = 16,
                             .classify = *keys,
                             .dead_letters = keyway::dead_letter_file(folder / "dead.jsonl")},
                            bill);
  auto end = pipeline.run_until(stop.get_token());
  const keyway::PipelineStats stats = pipeline.stats();
  std::cout << "done " << stats.done << ", dead " << stats.dead << ", commits " << stats.commits
            << '\n';
  return end;
}

}  // namespace

int main() {
  std::string name = (fs::temp_directory_path() / "keyway-orders-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) return 1;
  const fs::path folder = name;
  {
    std::ofstream orders(folder / "orders.jsonl");
    for (int i = 1; i <= kOrders; ++i) {
      orders << R"({"order":)" << i << R"(,"user":"u)" << i * i % 23 << "\"}\n";
    }
  }
  Ledger ledger;
  const auto first = run(folder, ledger, kOrders / 2);
  const auto second = run(folder, ledger, /*stop_after=*/-1);
  fs::remove_all(folder);
  if (!first || !second) {
    std::cerr << (first ? second : first).error().message << '\n';
    return 1;
  }
  std::cout << "billed " << ledger.billed << " of " << kOrders << " orders, "
            << (ledger.in_order ? "each user's in order" : "OUT OF ORDER") << '\n';
  return ledger.billed == kOrders - 5 && ledger.in_order ? 0 : 1;
}
