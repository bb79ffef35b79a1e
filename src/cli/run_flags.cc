#include "cli/run_flags.h"

#include <chrono>

#include <fmt/format.h>

#include "cli/common_values.h"

namespace keyway::cli {
namespace {

using run::HandlerKind;
using run::RunOptions;

constexpr int kLongLivedJobs = 16;

Result<void> check_sources(const RunOptions& options) {
  int from_input = 0;
  for (const std::string& source : options.sources) {
    if (source.starts_with("kafka://")) {
      return usage_error(fmt::format("{}: Kafka is not in this build", source),
                         "kcat -C ... | keyway run - --name NAME");
    }
    if (source == "-") ++from_input;
  }
  if (from_input > 1) return usage_error("standard input can be read only once", "one -");
  const bool reads_input = from_input > 0;
  if (!options.name.empty() && !reads_input) {
    return usage_error(fmt::format("--name \"{}\": is for standard input", options.name),
                       fmt::format("--state {}.keyway", options.name));
  }
  return {};
}

Result<void> take_handler(const Invocation& call, RunOptions& options) {
  const Settings& settings = call.settings;
  options.argv = call.command;
  options.url = settings.text("http");
  options.shell = settings.is_on("shell");
  const bool is_worker = settings.is_on("worker");
  const std::string& example = call.spec.examples.front().command;
  if (!options.url.empty()) {
    if (!options.argv.empty()) {
      return usage_error("--http and a command: only one of them handles records",
                         "no -- " + options.argv.front());
    }
    if (is_worker || options.shell) {
      return usage_error(fmt::format("--http and {}: there is no command to run",
                                     is_worker ? "--worker" : "--shell"),
                         "--http " + options.url);
    }
    options.handler = HandlerKind::kHttp;
    return {};
  }
  if (options.argv.empty()) return usage_error("run: a command is missing", example);
  if (is_worker && options.shell) {
    return usage_error("--worker and --shell: a worker is a program",
                       "--worker -- sh -c \"" + options.argv.front() + "\"");
  }
  options.handler = is_worker ? HandlerKind::kWorker : HandlerKind::kSpawn;
  return {};
}

void take_key_missing(const std::string& text, RunOptions& options) {
  if (text == "fail") {
    options.key_missing = KeyMissing::kFail;
  } else if (text == "dead") {
    options.key_missing = KeyMissing::kDead;
  } else if (text == "skip") {
    options.key_missing = KeyMissing::kSkip;
  } else {
    options.key_missing = KeyMissing::kName;
    options.missing_name = text;
  }
}

Result<void> take_stores(const Settings& settings, RunOptions& options) {
  options.dead = settings.text("dead");
  if (options.dead.starts_with("kafka:")) {
    return usage_error(fmt::format("--dead {}: Kafka is not in this build", options.dead),
                       "--dead dead.jsonl");
  }
  constexpr std::string_view kSqlite = "sqlite:";
  const std::string dedup = settings.text("dedup");
  if (dedup == "none") return {};
  if (dedup.starts_with(kSqlite) && dedup.size() > kSqlite.size()) {
    options.dedup = dedup.substr(kSqlite.size());
    return {};
  }
  if (dedup.starts_with("postgres:")) {
    return settings.refuse("dedup", "PostgreSQL is not yet in this version");
  }
  return settings.refuse("dedup", "must be none, or sqlite: and a file");
}

void take_choices(const std::string& order, const std::string& delivery, const std::string& on_dead,
                  RunOptions& options) {
  options.order = order == "key"         ? Order::kKey
                  : order == "partition" ? Order::kPartition
                                         : Order::kNone;
  options.delivery = delivery == "at-most-once" ? Delivery::kAtMostOnce : Delivery::kAtLeastOnce;
  options.on_dead = on_dead == "park"   ? OnDead::kPark
                    : on_dead == "halt" ? OnDead::kHalt
                                        : OnDead::kContinue;
}

}  // namespace

Result<RunFlags> run_flags(const Invocation& call) {
  const Settings& settings = call.settings;
  Result<CommonFlags> common = common_flags(call);
  if (!common) return common.error();
  RunFlags flags{.common = std::move(*common), .options = {}};
  CommonFlags& given = flags.common;
  RunOptions& options = flags.options;

  Reading reading(settings);
  std::string order;
  std::string delivery;
  std::string on_dead;
  int max_in_flight = 0;
  reading.take(settings.choice("order"), order);
  reading.take(settings.choice("delivery"), delivery);
  reading.take(settings.choice("on-dead"), on_dead);
  reading.take(settings.duration("commit-interval"), options.commit_interval);
  reading.take(settings.number("max-inflight", 1, 10'000'000), max_in_flight);
  reading.take_form("max-inflight-bytes", parse_size, options.max_in_flight_bytes);
  if (!reading.outcome()) return reading.outcome().error();
  if (options.commit_interval < std::chrono::milliseconds(1)) {
    return settings.refuse("commit-interval", "must be at least 1ms");
  }
  take_choices(order, delivery, on_dead, options);
  options.max_in_flight = static_cast<std::size_t>(max_in_flight);

  options.sources = call.arguments;
  options.name = given.name;
  options.lines = settings.is_on("lines");
  options.follow = settings.is_on("follow");
  if (options.follow && settings.is_on("until-end")) {
    return usage_error("--follow and --until-end exclude each other", "one of them");
  }
  options.key = settings.text("key");
  options.group = settings.text("group");
  take_key_missing(settings.text("key-missing"), options);
  if (auto checked = check_sources(options); !checked) return checked.error();
  if (auto taken = take_handler(call, options); !taken) return taken.error();
  if (auto taken = take_stores(settings, options); !taken) return taken.error();

  const bool by_default = settings.source("jobs") == Source::kBuiltIn;
  if (by_default && options.handler != HandlerKind::kSpawn) given.jobs = kLongLivedJobs;
  take_common(given, options);
  options.prints_output = !given.json;
  return flags;
}

}  // namespace keyway::cli
