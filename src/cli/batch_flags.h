// From the settings of `keyway batch` to what the engine is asked to do.
#pragma once

#include <optional>
#include <string>

#include "batch/batch_options.h"
#include "cli/command.h"
#include "cli/limits_file.h"
#include "cli/progress_view.h"
#include "keyway/error.h"

namespace keyway::cli {

struct BatchFlags {
  batch::Options options;
  std::optional<LimitsFile> limits_file;
  ProgressMode progress = ProgressMode::kNone;
  bool dry_run = false;
  bool quiet = false;
  bool verbose = false;
  bool json = false;
};

// Fails with the first value that is wrong, naming where it came from.
Result<BatchFlags> batch_flags(const Invocation& call);

}  // namespace keyway::cli
