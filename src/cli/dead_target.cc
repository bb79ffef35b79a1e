#include "cli/dead_target.h"

#include <filesystem>

#include <fmt/format.h>

#include "cli/console.h"
#include "cli/human_text.h"

namespace keyway::cli {

namespace fs = std::filesystem;

Result<DeadTarget> find_dead_target(const std::string& place) {
  std::error_code ignored;
  DeadTarget target;
  const fs::path path(place);
  if (fs::is_directory(path, ignored)) {
    target.folder = place;
  } else if (fs::is_directory(place + ".keyway", ignored)) {
    target.folder = place + ".keyway";
  } else if (!fs::is_regular_file(path, ignored)) {
    return usage_error(fmt::format("dead: {}: there is no such state folder", printable(place)),
                       "the folder of a run, such as orders.jsonl.keyway");
  } else if (path.filename() == "dead.jsonl" && fs::exists(path.parent_path() / "lock", ignored)) {
    target.folder = path.has_parent_path() ? path.parent_path().string() : ".";
  } else {
    target.file = place;
    return target;
  }
  target.file = target.folder + "/dead.jsonl";
  Result<std::optional<run::CommandFile>> command =
      run::read_command_file(target.folder + "/command.json");
  if (!command) return command.error();
  target.command = std::move(*command);
  if (!target.command) return target;
  constexpr std::string_view kDead = "--dead=";
  for (const std::string& word : target.command->argv) {
    if (word == "--") break;
    if (!word.starts_with(kDead) || word == "--dead=log") continue;
    target.file = word.substr(kDead.size());
  }
  return target;
}

}  // namespace keyway::cli
