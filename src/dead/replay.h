// Handles dead letters once more, as a run does: under the same limits, in order per key.
//
// Guarantees:
//   (1) A letter goes when its record was handled. One that dies again stays where it is, with its tries added up.
//   (2) No letter is lost, whatever happens. After a crash, all that were to be replayed are there still.
// What a run appends to the file meanwhile stays.
#pragma once

#include <string>

#include "dead/selection.h"
#include "keyway/error.h"
#include "run/run_options.h"
#include "run/run_stream.h"

namespace keyway::dead {

struct Replay {
  run::RunOptions options;  // its sources are not read
  std::string file;         // the letters
  Selection selection;
};

// As run::run_stream(). An id that no letter has is kInvalidArgument, before anything is handled.
Result<jobs::Summary> replay(const Replay& replay, const run::Watch& watch);

}  // namespace keyway::dead
