#include "run/run_stream.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <semaphore>

#include <sys/stat.h>
#include <unistd.h>

#include "base/system_error.h"
#include "handlers/handlers.h"
#include "jobs/repeating_timer.h"
#include "jobs/run_setup.h"
#include "jobs/signals.h"
#include "jobs/state_folder.h"
#include "keyway/dead_letter_file.h"
#include "keyway/file_source.h"
#include "keyway/json_path.h"
#include "keyway/sqlite_handled_ids.h"
#include "process/event_loop.h"
#include "process/system_processes.h"
#include "run/command_file.h"
#include "run/run_input.h"
#include "run/stream_run.h"

namespace keyway::run {

namespace {

Error wrong(std::string what) { return {ErrorCode::kInvalidArgument, std::move(what)}; }

// Found out before anything is made beside it.
Result<void> check_source(const std::string& path) {
  if (path == "-") return {};
  struct stat status{};
  if (stat(path.c_str(), &status) != 0 || access(path.c_str(), R_OK) != 0) {
    const int why = errno;
    return Error{ErrorCode::kIo,
                 "cannot open " + path + ": " + errno_text(why) + "\n  try: - for standard input"};
  }
  if (S_ISDIR(status.st_mode)) {
    return Error{ErrorCode::kIo, path + " is a folder\n  try: a file in it"};
  }
  return {};
}

Result<void> validate(const RunOptions& options) {
  if (options.sources.empty()) return wrong("there is nothing to read\n  try: orders.jsonl");
  if (options.jobs < 1) return wrong("--jobs must be at least 1");
  if (options.lines && !options.key.empty() && options.key != ".") {
    return wrong("--key " + options.key +
                 ": a plain line has no parts\n  try: --key . for the whole line, or no --lines");
  }
  if (options.lines && !options.group.empty()) {
    return wrong("--group " + options.group + ": a plain line has no parts\n  try: no --lines");
  }
  const bool has_queue =
      options.limits.standard.queue ||
      std::any_of(options.limits.groups.begin(), options.limits.groups.end(),
                  [](const auto& group) { return group.second.queue.has_value(); });
  if (has_queue) {
    return wrong(
        "the limits file has a queue, which is for jobs: records wait in their source\n"
        "  try: --max-inflight");
  }
  for (const std::string& path : options.sources) {
    if (const Result<void> checked = check_source(path); !checked) return checked;
  }
  return {};
}

// What the checkpoint means nothing without.
std::string settings_of(const RunOptions& options) {
  const char* const order = options.order == Order::kKey         ? "key"
                            : options.order == Order::kPartition ? "partition"
                                                                 : "none";
  return "--key " + (options.key.empty() ? "(none)" : options.key) + " --order " + order +
         (options.lines ? " --lines" : "");
}

Classify line_keys(const RunOptions& options) {
  if (options.key.empty()) return {};
  return [](Record& record) -> Result<bool> {
    record.key = record.value;
    return true;
  };
}

Result<Classify> classifier(const RunOptions& options) {
  if (options.lines) return line_keys(options);
  for (const auto& [flag, path] : {std::pair("--key", &options.key), {"--group", &options.group}}) {
    if (path->empty()) continue;
    const Result<JsonPath> parsed = JsonPath::parse(*path);
    if (!parsed) return wrong(std::string(flag) + ": " + parsed.error().message);
  }
  return json_keys({.key = options.key,
                    .group = options.group,
                    .on_missing = options.key_missing,
                    .name = options.missing_name});
}

// With --fresh. Dead letters are somebody's data: they are put aside, not removed.
Result<void> forget_earlier_run(const jobs::StateFolder& folder, const Watch& watch) {
  for (const char* const name : {"checkpoint", "joblog.jsonl"}) {
    const std::string path = folder.file(name);
    if (unlink(path.c_str()) != 0 && errno != ENOENT) {
      return system_error("cannot remove " + path, errno);
    }
  }
  const std::string dead = folder.file("dead.jsonl");
  if (rename(dead.c_str(), (dead + ".old").c_str()) == 0) {
    if (watch.notice) {
      watch.notice("the dead letters of the earlier run are in " + dead + ".old now");
    }
  } else if (errno != ENOENT) {
    return system_error("cannot rename " + dead, errno);
  }
  return {};
}

Result<std::unique_ptr<Handler>> make_handler(const RunOptions& options, const std::string& run_id,
                                              EventLoop& loop, Processes& processes,
                                              std::function<void(std::string_view)> on_stderr) {
  switch (options.handler) {
    case HandlerKind::kSpawn:
      return make_spawn_handler({.argv = options.argv,
                                 .shell = options.shell,
                                 .timeout = options.timeout,
                                 .grace = options.grace,
                                 .run_id = run_id},
                                loop, processes);
    case HandlerKind::kWorker:
      return make_worker_handler({.argv = options.argv,
                                  .workers = options.jobs,
                                  .timeout = options.timeout,
                                  .grace = options.grace,
                                  .run_id = run_id,
                                  .on_stderr = std::move(on_stderr)},
                                 loop, processes);
    case HandlerKind::kHttp:
      return make_http_handler({.url = options.url,
                                .connections = options.jobs,
                                .timeout = options.timeout,
                                .run_id = run_id},
                               loop);
  }
  return wrong("there is nobody to handle records");
}

InputPosition position_of(const FileSource& source) {
  const FileSource::Position position = source.position();
  return {.bytes = position.bytes,
          .total_bytes = position.total_bytes,
          .records = position.records,
          .total_records = position.total_records,
          .resumed_past = position.resumed_past,
          .resumed = position.resumed};
}

// The files that the options name.
class FileInput final : public RunInput {
 public:
  FileInput(const RunOptions& options, const jobs::StateFolder& folder)
      : options_(options),
        dead_file_(options.dead.empty() ? folder.file("dead.jsonl") : options.dead),
        source_({.paths = options.sources,
                 .follow = options.follow,
                 .checkpoint = folder.file("checkpoint"),
                 .settings = settings_of(options)}) {}

  Source& source() override { return source_; }
  std::shared_ptr<DeadLetters> dead_letters(const WriteLine& log) override {
    return logs_letters() ? dead_letter_log(log) : dead_letter_file(dead_file_);
  }
  std::string dead_file() const override { return logs_letters() ? "" : dead_file_; }
  InputPosition position() const override { return position_of(source_); }

 private:
  bool logs_letters() const { return options_.dead == "log"; }

  const RunOptions& options_;
  const std::string dead_file_;
  FileSource source_;
};

// Everything that is open while a run goes on, but for the run itself.
struct Stores {
  jobs::StateFolder folder;
  jobs::JobLog log;
  std::shared_ptr<HandledIds> handled_ids;
};

Result<Stores> open_stores(const RunOptions& options, const Watch& watch) {
  const std::string path = state_folder_of(options);
  if (path.empty()) {
    return wrong(
        "standard input has no place beside it for checkpoint and dead letters\n"
        "  try: --name NAME");
  }
  Result<jobs::StateFolder> folder = jobs::StateFolder::take(path);
  if (!folder) return folder.error();
  if (options.fresh) {
    if (const Result<void> gone = forget_earlier_run(*folder, watch); !gone) return gone.error();
  }
  Result<jobs::JobLog> log = jobs::JobLog::open(folder->file("joblog.jsonl"));
  if (!log) return log.error();
  Stores stores{std::move(*folder), std::move(*log), nullptr};
  if (!options.dedup.empty()) {
    Result<std::shared_ptr<HandledIds>> ids = sqlite_handled_ids(options.dedup);
    if (!ids) return ids.error();
    stores.handled_ids = std::move(*ids);
  }
  return stores;
}

}  // namespace

std::string state_folder_of(const RunOptions& options) {
  if (!options.state_dir.empty()) return options.state_dir;
  if (!options.name.empty()) return options.name + ".keyway";
  for (const std::string& source : options.sources) {
    if (source != "-") return source + ".keyway";
  }
  return {};
}

Result<jobs::Summary> run_stream(const RunOptions& options, const Watch& watch) {
  if (const Result<void> valid = validate(options); !valid) return valid.error();
  const auto open_files =
      [&](const jobs::StateFolder& folder) -> Result<std::unique_ptr<RunInput>> {
    if (!options.command_line.empty()) {
      const CommandFile command{options.command_line, std::filesystem::current_path().string()};
      const Result<void> written = write_command_file(folder.file("command.json"), command);
      if (!written) return written.error();
    }
    return std::unique_ptr<RunInput>(std::make_unique<FileInput>(options, folder));
  };
  return run_input(options, watch, open_files);
}

Result<jobs::Summary> run_input(const RunOptions& options, const Watch& watch,
                                const OpenInput& open) {
  Result<Classify> classify = classifier(options);
  if (!classify) return classify.error();
  jobs::allow_descriptors(options.jobs);
  const std::uint64_t seed = jobs::random_seed();
  try {
    EventLoop loop;
    SystemProcesses processes(loop, static_cast<std::size_t>(options.jobs));
    StreamRun* running = nullptr;
    const auto print_errors = [&running](std::string_view text) {
      if (running != nullptr) running->print_errors(text);
    };
    Result<std::unique_ptr<Handler>> handler =
        make_handler(options, jobs::new_run_id(seed), loop, processes, print_errors);
    if (!handler) return handler.error();
    Result<Stores> stores = open_stores(options, watch);
    if (!stores) return stores.error();
    Result<std::unique_ptr<RunInput>> opened = open(stores->folder);
    if (!opened) return opened.error();
    RunInput& input = **opened;
    const auto log_letter = [&](std::string_view line) -> Result<void> {
      print_errors(std::string(line) + "\n");
      return {};
    };
    StreamRun run(options,
                  {.source = input.source(),
                   .handler = **handler,
                   .classify = input.classify(std::move(*classify)),
                   .dead_letters = input.dead_letters(log_letter),
                   .handled_ids = stores->handled_ids,
                   .log = &stores->log,
                   .position = [&input] { return input.position(); }},
                  loop,
                  {.loop = &loop,
                   .seed = seed,
                   .notice = watch.notice,
                   .before_output = watch.before_output,
                   .attempt_ended = watch.attempt_ended});
    running = &run;
    const jobs::Signals signals(loop, [&](int signal) {
      if (signal != SIGUSR1) {
        run.signal_received(signal);
      } else if (watch.notice) {
        watch.notice(run.describe_running());
      }
    });
    const auto show = [&] {
      run.flush_log();
      if (watch.progress) watch.progress(run.progress());
      if (watch.sample) watch.sample(run.sample());
    };
    Result<jobs::Summary> summary = wrong("it was not run");
    {
      const jobs::RepeatingTimer timer(loop, watch.every, show);
      summary = run.run();
    }
    running = nullptr;
    if (!summary) return summary;
    show();
    if (const Result<void> finished = input.finish(); !finished) return finished.error();
    summary->joblog_file = stores->folder.file("joblog.jsonl");
    if (summary->failed > 0) summary->dead_file = input.dead_file();
    return summary;
  } catch (const Exception& exception) {
    return exception.error();
  }
}

Result<Plan> plan_stream(const RunOptions& options,
                         const std::function<void(const PlannedRecord&)>& show) {
  if (const Result<void> valid = validate(options); !valid) return valid.error();
  Result<Classify> classify = classifier(options);
  if (!classify) return classify.error();
  const std::string folder = state_folder_of(options);
  const bool looks_back = !folder.empty() && !options.fresh;
  std::counting_semaphore<> woken(0);  // a pipe has something
  FileSource source({.paths = options.sources,
                     .checkpoint = looks_back ? folder + "/checkpoint" : "",
                     .settings = settings_of(options)});
  if (const Result<void> opened = source.open([&] { woken.release(); }); !opened)
    return opened.error();
  Plan plan;
  std::vector<Record> records;
  std::vector<PartitionEvent> events;
  while (true) {
    records.clear();
    const Result<Polled> polled = source.poll(records, events, 256);
    if (!polled) return polled.error();
    for (Record& record : records) {
      const Result<bool> wanted = *classify ? (*classify)(record) : Result<bool>(true);
      if (!wanted) {
        return Error{ErrorCode::kIo, source.place_of(record) + ": " + wanted.error().message +
                                         "\n  try: --key-missing dead|skip|NAME"};
      }
      if (!*wanted) continue;
      ++plan.records;
      show({.id = source.id_of(record),
            .key = record.key,
            .group = record.group,
            .defect = record.defect});
    }
    if (polled->state == Polled::kEnd) break;
    if (polled->state == Polled::kIdle) (void)woken.try_acquire_for(polled->idle_for);
  }
  plan.done = source.position().resumed_past;
  source.close();
  return plan;
}

}  // namespace keyway::run
