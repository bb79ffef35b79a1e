// The three kinds of handlers of `keyway run`; each is a Handler.
//
// A process for each record (`-- argv`): the record and a newline are its stdin. Exit 0 is done, 65 a permanent
// failure, all else a retry. A placeholder in argv stands for a text of the record: see
// command_template.h.
//
// Long-lived workers (`--worker -- argv`): one JSON object per line, on stdin and stdout: see worker_protocol.h.
//
// A server (`--http URL`): the record is POSTed: see http_client.h.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "handlers/handler.h"
#include "keyway/error.h"
#include "keyway/scheduler.h"
#include "process/process.h"

namespace keyway::run {

struct SpawnOptions {
  std::vector<std::string> argv;
  bool shell = false;  // argv, joined by spaces, is a text for `sh -c`; values are quoted
  Duration timeout{};  // 0: none
  Duration grace = std::chrono::seconds(30);  // between SIGTERM and SIGKILL
  std::string run_id;
};

struct WorkerOptions {
  std::vector<std::string> argv;
  int workers = 1;       // at most
  int max_inflight = 1;  // records that one worker has at once
  Duration timeout{};
  Duration grace = std::chrono::seconds(30);
  std::string run_id;
  // What a worker writes to stderr, whole lines with their newlines, as it comes. Empty: it goes nowhere.
  std::function<void(std::string_view lines)> on_stderr;
};

struct HttpOptions {
  std::string url;
  int connections = 16;  // at most
  Duration timeout{};    // 0: 30 s
  std::string run_id;
};

// kInvalidArgument, with what to do: no argv, a placeholder that does not exist, a URL that is none.
Result<std::unique_ptr<Handler>> make_spawn_handler(SpawnOptions options, Scheduler& scheduler,
                                                    Processes& processes);
Result<std::unique_ptr<Handler>> make_worker_handler(WorkerOptions options, Scheduler& scheduler,
                                                     Processes& processes);
// The scheduler's post() must be thread-safe. kIo: there are no certificates to trust, for https.
Result<std::unique_ptr<Handler>> make_http_handler(const HttpOptions& options,
                                                   Scheduler& scheduler);

}  // namespace keyway::run
