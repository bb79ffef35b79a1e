// The configuration files: keyway.toml of the project, and the user's config.toml.
//
//   jobs = 8                 # for every command
//   [batch]
//   retries = 5              # for `keyway batch` alone; stronger than the line above it would be
//
// The project's file is the nearest keyway.toml in the current folder and its parents, up to the
// repository's root (the folder that holds .git) or the home folder, whichever comes first; where
// neither is above it, only the current folder is looked at. So nothing that lies in a folder of
// strangers such as /tmp is read by accident.
// The user's file is $XDG_CONFIG_HOME/keyway/config.toml, else ~/.config/keyway/config.toml.
#pragma once

#include <filesystem>
#include <optional>
#include <span>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/settings.h"
#include "keyway/error.h"

namespace keyway::cli {

std::optional<std::filesystem::path> find_project_file(const Console& console);
std::optional<std::filesystem::path> find_user_file(const Console& console);

// Sets what is found for `spec` in `path`. A key that no command has, or of the wrong type, is an
// error that names its place. `commands`: all there are, since each may have a table in the file.
// A path in the file is meant from the file's own folder.
Result<void> load_config_file(const std::filesystem::path& path, Source source,
                              const CommandSpec& spec, std::span<const Command> commands,
                              const Console& console, Settings& settings);

// From weakest to strongest: built-in values, both files, the environment. Flags are the caller's.
Result<Settings> load_settings(const CommandSpec& spec, std::span<const Command> commands,
                               const Console& console);

}  // namespace keyway::cli
