// Every options struct with some members left out, as a consumer writes it who compiles with many warnings.
#include <cstdio>
#include <memory>
#include <string>

#include "keyway/error.h"
#include "keyway/file_source.h"
#include "keyway/group_executor.h"
#include "keyway/json_keys.h"
#include "keyway/key_locks.h"
#include "keyway/keyed_calls.h"
#include "keyway/pipeline.h"
#include "keyway/sqlite_database.h"
#include "keyway/sqlite_handled_ids.h"

namespace {

class Listener final : public keyway::TaskLifecycleListener {};

keyway::Task<int> coroutine() {
  co_await keyway::sleep_for(std::chrono::milliseconds(1));
  co_return 1;
}

int run_groups() {
  const keyway::GroupPolicy policy{
      .groups = {{"vip", {.max_concurrency = 4}},
                 {"db", {.queue_threshold = 100, .rate = keyway::RateLimit{.per_second = 1e6}}},
                 {"adaptive", {.adaptive = keyway::AdaptiveLimits{.ceiling = 8}}}},
      .default_group = {.max_in_flight = 2},
      .rejection = keyway::RejectionPolicy::kDiscard,
      .listener = std::make_shared<Listener>(),
  };
  keyway::GroupExecutor executor(policy, {.threads = 1});
  static_cast<void>(executor.set_limits("vip", {.weight = 2}));
  auto handle = executor.submit("vip", {.id = "task", .cost = 2}, [] { return 1; });
  auto other = executor.submit("vip", "coroutine", coroutine);
  return handle.join().value() + other.join().value();
}

keyway::Result<int> run_serial() {
  keyway::SerialDispatcher dispatcher({.workers = 1, .on_full = keyway::OnFull::kFailFast});
  return dispatcher.run("key", [] { return 1; });
}

// Not run: it needs files.
std::size_t describe_streams() {
  const keyway::PipelineOptions options{
      .concurrency = 2,
      .batch = {.most = 10},
      .retry = {.attempts = 2},
      .max_window = 10,
  };
  const keyway::FileSourceOptions files{.paths = {"orders.jsonl"}, .checkpoint = "checkpoint"};
  const keyway::JsonKeysOptions keys{.key = "/signer"};
  const keyway::SqliteOptions database{};
  const keyway::HandledIdsOptions ids{};
  const keyway::KeyLocksOptions locks{};
  const keyway::Outcome outcome{.reason = "none"};
  const keyway::Record record{.value = "value"};
  const keyway::DeadLetter letter{.cause = "none"};
  const keyway::Error error{.message = "none"};
  static_cast<void>(database);
  static_cast<void>(ids);
  static_cast<void>(locks);
  return options.max_window + files.paths.size() + keys.key.size() + outcome.reason.size() +
         record.value.size() + letter.cause.size() + error.message.size();
}

}  // namespace

int main() {
  const int sum = run_groups() + run_serial().value_or(0);
  std::printf("%d %zu\n", sum, describe_streams());
  return sum == 3 ? 0 : 1;
}
