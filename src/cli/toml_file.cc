#include "cli/toml_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include <fmt/format.h>

#include "cli/console.h"

namespace keyway::cli {
namespace {

std::string place_of(const std::string& name, const toml::source_region& region) {
  return fmt::format("{}:{}:{}", name, region.begin.line, region.begin.column);
}

}  // namespace

std::string TomlFile::place(const toml::node& node) const { return place_of(name, node.source()); }
std::string TomlFile::place(const toml::key& key) const { return place_of(name, key.source()); }

Result<TomlFile> read_toml(const std::filesystem::path& path, std::string name) {
  errno = 0;
  std::error_code ignored;
  std::ifstream file(path);
  const bool is_folder = std::filesystem::is_directory(path, ignored);
  if (!file || is_folder) {
    const char* const why = is_folder ? "is a folder" : std::strerror(errno);
    return usage_error(fmt::format("{}: cannot be read: {}", name, why),
                       fmt::format("ls -l {}", name));
  }
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  try {
    return TomlFile{name, toml::parse(text, name)};
  } catch (const toml::parse_error& error) {
    return usage_error(
        fmt::format("{}: {}", place_of(name, error.source()), error.description()),
        "strings in quotes (name = \"text\"), numbers without (jobs = 8); see https://toml.io");
  }
}

std::string toml_type(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "a list";
    case toml::node_type::string:
      return "a text";
    case toml::node_type::integer:
      return "a number";
    case toml::node_type::floating_point:
      return "a number with a fraction";
    case toml::node_type::boolean:
      return "true or false";
    case toml::node_type::date:
    case toml::node_type::time:
    case toml::node_type::date_time:
      return "a date or time";
    case toml::node_type::none:
      break;
  }
  return "nothing";
}

}  // namespace keyway::cli
