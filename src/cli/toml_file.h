// A TOML file and where each thing in it stands, for messages that begin "file:line:column".
#pragma once

#include <filesystem>
#include <string>

#include <toml++/toml.h>

#include "keyway/error.h"

namespace keyway::cli {

struct TomlFile {
  std::string name;  // as messages say it
  toml::table root;

  // "keyway.toml:3:8"
  std::string place(const toml::node& node) const;
  std::string place(const toml::key& key) const;
};

// Fails with kInvalidArgument if it cannot be read or is no TOML. `name`: see TomlFile.
Result<TomlFile> read_toml(const std::filesystem::path& path, std::string name);

// "a string", "a table": what the file has where something else was wanted.
std::string toml_type(const toml::node& node);

}  // namespace keyway::cli
