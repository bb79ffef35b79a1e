// What a run is to do: the flags of `keyway run`, parsed.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "jobs/backoff.h"
#include "jobs/halt.h"
#include "jobs/limits.h"
#include "keyway/json_keys.h"
#include "keyway/pipeline.h"

namespace keyway::run {

enum class HandlerKind { kSpawn, kWorker, kHttp };

struct RunOptions {
  // What is read
  std::vector<std::string> sources;  // paths, each a partition; "-": standard input
  std::string name;                  // of a run that reads standard input
  bool follow = false;
  bool lines = false;  // plain lines: no JSON is looked into
  std::string key;     // a JsonPath; with `lines` only ".", the whole line; empty: no order by key
  std::string group;
  KeyMissing key_missing = KeyMissing::kFail;
  std::string missing_name;  // KeyMissing::kName

  // Who handles it
  HandlerKind handler = HandlerKind::kSpawn;
  std::vector<std::string> argv;
  bool shell = false;
  std::string url;  // kHttp

  // How
  Order order = Order::kKey;
  Delivery delivery = Delivery::kAtLeastOnce;
  int jobs = 1;         // how many at once
  jobs::Limits limits;  // of groups; without `group`, of keys
  int retries = 3;      // after the first try
  jobs::Backoff backoff;
  std::chrono::milliseconds timeout{0};  // of one try; 0: none
  std::chrono::milliseconds grace{30'000};
  jobs::Halt halt;
  OnDead on_dead = OnDead::kContinue;
  std::size_t max_in_flight = 10'000;
  std::size_t max_in_flight_bytes = std::size_t{256} << 20;
  std::chrono::milliseconds commit_interval{1'000};

  // What is kept
  std::string state_dir;  // empty: "<first source>.keyway", or "<name>.keyway"
  bool fresh = false;     // forget an earlier run
  std::string dead;       // a file; "log": standard error; empty: dead.jsonl in the state folder
  std::string dedup;      // a SQLite file of handled ids; empty: none
  std::vector<std::string> command_line;  // after `keyway run`: for command.json; empty: none
  bool prints_output = true;              // of handlers, on standard output
};

}  // namespace keyway::run
