// Where the records of a run come from: the seam that lets letters be replayed as records are run.
//
// Thread safety: the run's thread alone.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "jobs/run_progress.h"
#include "jobs/state_folder.h"
#include "keyway/dead_letters.h"
#include "keyway/error.h"
#include "keyway/source.h"
#include "run/run_options.h"
#include "run/run_stream.h"
#include "run/stream_run.h"

namespace keyway::run {

using Classify = std::function<Result<bool>(Record&)>;
using WriteLine = std::function<Result<void>(std::string_view line)>;

class RunInput {
 public:
  virtual ~RunInput() = default;

  virtual Source& source() = 0;
  // `of_options`: what the options say about keys and groups; may be empty.
  virtual Classify classify(Classify of_options) { return of_options; }
  // `log`: for letters that go to the log.
  virtual std::shared_ptr<DeadLetters> dead_letters(const WriteLine& log) = 0;
  virtual std::string dead_file() const = 0;  // empty: none
  virtual InputPosition position() const = 0;
  // The run is over, and all that was done is committed.
  virtual Result<void> finish() { return {}; }
};

// As run_stream(), but the records are those of an input, which is opened once the state folder is taken.
using OpenInput = std::function<Result<std::unique_ptr<RunInput>>(const jobs::StateFolder& folder)>;
Result<jobs::Summary> run_input(const RunOptions& options, const Watch& watch,
                                const OpenInput& open);

}  // namespace keyway::run
