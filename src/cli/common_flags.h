// What `keyway batch` and `keyway run` are asked in the same words.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "cli/command.h"
#include "cli/limits_file.h"
#include "cli/progress_view.h"
#include "jobs/backoff.h"
#include "jobs/halt.h"
#include "jobs/limits.h"
#include "keyway/error.h"

namespace keyway::cli {

struct CommonFlags {
  int jobs = 1;
  jobs::Limits limits;
  int retries = 3;
  jobs::Backoff backoff;
  std::chrono::milliseconds timeout{0};
  std::chrono::milliseconds grace{0};
  jobs::Halt halt;
  std::string name;
  std::string state_dir;
  bool fresh = false;
  std::string report_file;
  std::optional<LimitsFile> limits_file;
  ProgressMode progress = ProgressMode::kNone;
  bool dry_run = false;
  bool quiet = false;
  bool verbose = false;
  bool json = false;
};

// Fails with the first value that is wrong, naming where it came from.
Result<CommonFlags> common_flags(const Invocation& call);

// What a batch and a run have in common of their options.
template <class Options>
void take_common(const CommonFlags& given, Options& options) {
  options.name = given.name;
  options.jobs = given.jobs;
  options.limits = given.limits;
  options.retries = given.retries;
  options.backoff = given.backoff;
  options.timeout = given.timeout;
  options.grace = given.grace;
  options.halt = given.halt;
  options.state_dir = given.state_dir;
  options.fresh = given.fresh;
}

// Collects the first failure, so that each flag is one line.
class Reading {
 public:
  explicit Reading(const Settings& settings) : settings_(settings) {}

  template <class Value>
  void take(Result<Value> read, Value& into) {
    if (read) {
      into = std::move(*read);
    } else if (failure_.ok()) {
      failure_ = read.error();
    }
  }

  // For a value with a form of its own: its parser says what is wrong with it, Settings where it
  // was.
  template <class Value>
  void take_form(std::string_view option, Result<Value> (*parse)(std::string_view), Value& into) {
    Result<Value> read = parse(settings_.text(option));
    if (read) {
      into = std::move(*read);
    } else if (failure_.ok()) {
      failure_ = settings_.refuse(option, read.error().message);
    }
  }

  const Result<void>& outcome() const { return failure_; }

 private:
  const Settings& settings_;
  Result<void> failure_;
};

}  // namespace keyway::cli
