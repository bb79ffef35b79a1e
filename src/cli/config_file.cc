#include "cli/config_file.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "cli/nearest.h"
#include "cli/toml_file.h"

namespace keyway::cli {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

fs::path home_folder(const Console& console) {
  return fs::path(console.environment("HOME").value_or("")).lexically_normal();
}

// As somebody in the current folder would name it.
std::string short_name(const fs::path& path, const fs::path& folder) {
  const fs::path relative = path.lexically_relative(folder);
  const std::string text = relative.string();
  return text.empty() || text.starts_with("../../..") ? path.string() : text;
}

std::vector<std::string> configurable_names(const CommandSpec& spec) {
  std::vector<std::string> names;
  for (const OptionSpec& option : spec.options) {
    if (option.configurable) names.push_back(option.name);
  }
  return names;
}

std::string wanted_type(const OptionSpec& option) {
  switch (option.kind) {
    case ValueKind::kNumber:
      return "a number";
    case ValueKind::kSwitch:
      return "true or false";
    default:
      return "a text";
  }
}

class Loader {
 public:
  Loader(const TomlFile& file, const fs::path& folder, const fs::path& current_folder,
         Source source, const CommandSpec& spec, std::span<const Command> commands,
         Settings& settings)
      : file_(file),
        folder_(folder),
        current_folder_(current_folder),
        source_(source),
        spec_(spec),
        commands_(commands),
        settings_(settings) {}

  Result<void> load() {
    // The table of the command comes last: it is the stronger one.
    for (const auto& [key, node] : file_.root) {
      if (find_command(key.str()) != nullptr) continue;
      if (auto known = take_common(key, node); !known) return known;
    }
    for (const auto& [key, node] : file_.root) {
      const CommandSpec* const command = find_command(key.str());
      if (command == nullptr) continue;
      if (auto known = take_table(*command, key, node); !known) return known;
    }
    return {};
  }

 private:
  const CommandSpec* find_command(std::string_view name) const {
    for (const Command& command : commands_) {
      if (command.spec.name == name && !configurable_names(command.spec).empty()) {
        return &command.spec;
      }
    }
    return nullptr;
  }

  Result<void> take_common(const toml::key& key, const toml::node& node) {
    const OptionSpec* option = configurable(spec_, key.str());
    const bool is_ours = option != nullptr;
    for (const Command& command : commands_) {
      if (option == nullptr) option = configurable(command.spec, key.str());
    }
    if (option == nullptr) return unknown_key(key, all_names());
    return take(*option, node, is_ours);
  }

  Result<void> take_table(const CommandSpec& command, const toml::key& key,
                          const toml::node& node) {
    const toml::table* const table = node.as_table();
    if (table == nullptr) {
      return usage_error(fmt::format("{}: {} must be a table", file_.place(key), key.str()),
                         fmt::format("a line [{}], and its settings below", key.str()));
    }
    for (const auto& [name, value] : *table) {
      const OptionSpec* const option = configurable(command, name.str());
      if (option == nullptr) return unknown_key(name, configurable_names(command));
      if (auto taken = take(*option, value, &command == &spec_ || command.name == spec_.name);
          !taken) {
        return taken;
      }
    }
    return {};
  }

  Result<void> take(const OptionSpec& option, const toml::node& node, bool is_ours) {
    std::string text;
    if (option.kind == ValueKind::kNumber && node.is_integer()) {
      text = std::to_string(node.as_integer()->get());
    } else if (option.kind == ValueKind::kSwitch && node.is_boolean()) {
      text = node.as_boolean()->get() ? "true" : "false";
    } else if (option.kind != ValueKind::kNumber && option.kind != ValueKind::kSwitch &&
               node.is_string()) {
      text = node.as_string()->get();
    } else {
      std::string value = option.kind == ValueKind::kSwitch ? "true" : option.valid_example();
      if (wanted_type(option) == "a text") value = fmt::format("\"{}\"", value);
      return usage_error(fmt::format("{}: {} must be {}, not {}", file_.place(node), option.name,
                                     wanted_type(option), toml_type(node)),
                         fmt::format("{} = {}", option.name, value));
    }
    const bool is_path = option.kind == ValueKind::kFile || option.kind == ValueKind::kFolder;
    if (is_path && !text.empty()) {
      text = short_name((folder_ / text).lexically_normal(), current_folder_);
    }
    if (is_ours) settings_.set(option.name, {text, source_, file_.place(node)});
    return {};
  }

  static const OptionSpec* configurable(const CommandSpec& command, std::string_view name) {
    const OptionSpec* const option = command.find_option(name);
    return option != nullptr && option->configurable ? option : nullptr;
  }

  std::vector<std::string> all_names() const {
    std::vector<std::string> names;
    for (const Command& command : commands_) {
      const std::vector<std::string> more = configurable_names(command.spec);
      if (!more.empty()) names.push_back(command.spec.name);
      names.insert(names.end(), more.begin(), more.end());
    }
    return names;
  }

  Error unknown_key(const toml::key& key, const std::vector<std::string>& names) const {
    const auto near = nearest(key.str(), names);
    return usage_error(fmt::format("{}: unknown key \"{}\"", file_.place(key), key.str()),
                       near ? *near : "keyway config, which lists the keys there are");
  }

  const TomlFile& file_;
  const fs::path& folder_;
  const fs::path& current_folder_;
  const Source source_;
  const CommandSpec& spec_;
  const std::span<const Command> commands_;
  Settings& settings_;
};

}  // namespace

std::optional<fs::path> find_project_file(const Console& console) {
  const fs::path start = console.folder.lexically_normal();
  const fs::path home = home_folder(console);
  fs::path boundary = start;
  for (fs::path folder = start;; folder = folder.parent_path()) {
    if (is_there(folder / ".git") || (!home.empty() && folder == home)) {
      boundary = folder;
      break;
    }
    if (folder == folder.parent_path()) break;
  }
  for (fs::path folder = start;; folder = folder.parent_path()) {
    if (is_there(folder / "keyway.toml")) return folder / "keyway.toml";
    if (folder == boundary) return std::nullopt;
  }
}

std::optional<fs::path> find_user_file(const Console& console) {
  fs::path base = console.environment("XDG_CONFIG_HOME").value_or("");
  if (base.empty()) {
    const fs::path home = home_folder(console);
    if (home.empty()) return std::nullopt;
    base = home / ".config";
  }
  fs::path file = base / "keyway" / "config.toml";
  if (!is_there(file)) return std::nullopt;
  return file;
}

Result<void> load_config_file(const fs::path& path, Source source, const CommandSpec& spec,
                              std::span<const Command> commands, const Console& console,
                              Settings& settings) {
  const Result<TomlFile> file = read_toml(path, short_name(path, console.folder));
  if (!file) return file.error();
  const fs::path folder = path.parent_path();
  return Loader(*file, folder, console.folder, source, spec, commands, settings).load();
}

Result<Settings> load_settings(const CommandSpec& spec, std::span<const Command> commands,
                               const Console& console) {
  Settings settings(spec.options);
  for (const OptionSpec& option : spec.options) {
    if (!option.fallback.empty())
      settings.set(option.name, {option.fallback, Source::kBuiltIn, {}});
  }
  if (!spec.reads_configuration) return settings;
  const std::optional<fs::path> user = find_user_file(console);
  const std::optional<fs::path> project = find_project_file(console);
  if (user) {
    auto loaded = load_config_file(*user, Source::kUserFile, spec, commands, console, settings);
    if (!loaded) return loaded.error();
  }
  if (project) {
    auto loaded =
        load_config_file(*project, Source::kProjectFile, spec, commands, console, settings);
    if (!loaded) return loaded.error();
  }
  for (const OptionSpec& option : spec.options) {
    if (!option.configurable) continue;
    // Set but empty means not set, as with NO_COLOR.
    const std::string value = console.environment(option.environment_name()).value_or("");
    if (!value.empty()) settings.set(option.name, {value, Source::kEnvironment, {}});
  }
  return settings;
}

}  // namespace keyway::cli
