#include "exec/exec.h"

#include <algorithm>
#include <cstring>

#include <unistd.h>

#include "exec/foreground.h"

namespace keyway::exec {

namespace {

using Clock = Interrupts::Clock;

std::string base_name(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

// The program's own variables, but for those that say where the command is.
class Environment {
 public:
  Environment(const std::string& key, int slot)
      : own_{"KEYWAY_KEY=" + key, "KEYWAY_SLOT=" + std::to_string(slot)} {
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const auto is_named_as = [&](const std::string& ours) {
        return std::strncmp(*entry, ours.c_str(), ours.find('=') + 1) == 0;
      };
      if (std::ranges::none_of(own_, is_named_as)) all_.push_back(*entry);
    }
    for (const std::string& entry : own_) all_.push_back(entry.c_str());
  }
  std::span<const char* const> all() const { return all_; }

 private:
  const std::vector<std::string> own_;
  std::vector<const char*> all_;
};

Ending failed(const Error& error) { return {.kind = Ending::kFailed, .message = error.message}; }

Ending run_with(KeySlot& slot, const Options& options) {
  const Environment environment(options.key, slot.number() + 1);
  const CommandEnd end = run_in_foreground({.argv = options.command,
                                            .environment = environment.all(),
                                            .inherited = slot.descriptor(),
                                            .timeout = options.timeout,
                                            .pid_record = slot.command_record()});
  if (end.timed_out) return {.kind = Ending::kTimedOut};
  if (end.failure.empty()) return {.kind = Ending::kRan, .status = end.status};
  if (end.status == 125) return failed({ErrorCode::kIo, end.failure});
  return {.kind = Ending::kNotRun, .status = end.status, .message = end.failure};
}

}  // namespace

Ending run_exec(const Options& options, const Events& events) {
  const auto begin = Clock::now();
  const Result<SlotFolder> folder = open_slot_folder(options.folder);
  if (!folder) return failed(folder.error());
  KeySlot slot(*folder, options.key);
  SlotRequest request{.limit = options.limit, .name = base_name(options.command.front())};
  request.waits = !options.wait || options.wait->count() > 0;
  if (options.wait) request.deadline = begin + *options.wait;
  if (options.notice_after) request.notice_at = begin + *options.notice_after;
  request.notice = events.waiting;
  const Result<SlotOutcome> outcome = slot.take(request);
  if (!outcome) return failed(outcome.error());
  switch (outcome->kind) {
    case SlotOutcome::kTaken:
      break;
    case SlotOutcome::kFull:
      return {.kind = Ending::kFull, .occupancy = outcome->occupancy};
    case SlotOutcome::kInterrupted:
      return {.kind = Ending::kSignalled, .status = 128 + outcome->signal};
  }
  if (events.running) events.running(slot.number() + 1, Clock::now() - begin);
  return run_with(slot, options);
}

}  // namespace keyway::exec
