// command.json in the state folder: how the run was started, so that its dead letters can be replayed by the same handler.
//
//   {"argv":["orders.jsonl","--key=.user","--","./bill"],"cwd":"/srv/shop"}
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "keyway/error.h"

namespace keyway::run {

struct CommandFile {
  std::vector<std::string> argv;  // after `keyway run`
  std::string cwd;
};

// May hold what only the owner of the command line knew: nobody else can read it.
Result<void> write_command_file(const std::string& path, const CommandFile& command);
// Nothing: there is none. kConflict: it is of another form.
Result<std::optional<CommandFile>> read_command_file(const std::string& path);

}  // namespace keyway::run
