#include "cli/limits_file.h"

#include <limits>

#include <fmt/format.h>

#include "cli/console.h"
#include "cli/nearest.h"
#include "cli/toml_file.h"

namespace keyway::cli {
namespace {

const std::vector<std::string> kSections = {"default", "groups"};
const std::vector<std::string> kLimitKeys = {"limit", "max_in_flight", "queue"};

class Reader {
 public:
  explicit Reader(const TomlFile& file) : file_(file) { result_.name = file.name; }

  Result<LimitsFile> read() {
    for (const auto& [key, node] : file_.root) {
      if (key.str() != "default" && key.str() != "groups") return unknown_section(key);
      const toml::table* const table = node.as_table();
      if (table == nullptr) {
        return usage_error(fmt::format("{}: {} must be a table, not {}", file_.place(node),
                                       key.str(), toml_type(node)),
                           fmt::format("[{}]", key.str()));
      }
      auto read = key.str() == "default" ? read_default(*table) : read_groups(*table);
      if (!read) return read.error();
    }
    return std::move(result_);
  }

 private:
  Result<void> read_default(const toml::table& table) {
    jobs::GroupLimit standard;
    if (auto read = read_limit(table, standard); !read) return read;
    result_.has_default_limit = standard.limit.has_value();
    if (!standard.limit) standard.limit = result_.limits.standard.limit;
    result_.limits.standard = standard;
    return {};
  }

  Result<void> read_groups(const toml::table& table) {
    for (const auto& [key, node] : table) {
      const std::string group(key.str());
      jobs::GroupLimit limit;
      if (const toml::table* const inner = node.as_table()) {
        if (auto read = read_limit(*inner, limit); !read) return read;
      } else {
        const auto number = read_number(group, node);
        if (!number) return number.error();
        limit.limit = *number;
      }
      result_.places[group] = file_.place(key);
      result_.limits.groups[group] = limit;
    }
    return {};
  }

  Result<void> read_limit(const toml::table& table, jobs::GroupLimit& limit) {
    for (const auto& [key, node] : table) {
      std::optional<int>* const field = key.str() == "limit"           ? &limit.limit
                                        : key.str() == "max_in_flight" ? &limit.max_in_flight
                                        : key.str() == "queue"         ? &limit.queue
                                                                       : nullptr;
      if (field == nullptr) {
        const auto near = nearest(key.str(), kLimitKeys);
        return usage_error(fmt::format("{}: unknown key \"{}\"", file_.place(key), key.str()),
                           near ? *near : "limit, max_in_flight or queue");
      }
      const auto number = read_number(std::string(key.str()), node);
      if (!number) return number.error();
      *field = *number;
    }
    return {};
  }

  Result<int> read_number(const std::string& name, const toml::node& node) const {
    const std::string bare = is_bare(name) ? name : fmt::format("\"{}\"", name);
    const std::string next = fmt::format("{} = 4", bare);
    if (!node.is_integer()) {
      return usage_error(fmt::format("{}: {} must be a whole number, not {}", file_.place(node),
                                     bare, toml_type(node)),
                         next);
    }
    const std::int64_t number = node.as_integer()->get();
    if (number < 1 || number > std::numeric_limits<int>::max()) {
      return usage_error(fmt::format("{}: {} = {}: must be 1 or more{}", file_.place(node), bare,
                                     number, number < 1 ? "" : ", and at most 2,147,483,647"),
                         next);
    }
    return static_cast<int>(number);
  }

  Error unknown_section(const toml::key& key) const {
    // A group at the top of the file is the likeliest slip.
    const auto near = nearest(key.str(), kSections);
    return usage_error(fmt::format("{}: unknown key \"{}\"", file_.place(key), key.str()),
                       near ? fmt::format("[{}]", *near)
                            : fmt::format("a line [groups] above it, if {} is a group", key.str()));
  }

  static bool is_bare(const std::string& name) {
    return !name.empty() && name.find_first_not_of(
                                "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == std::string::npos;
  }

  const TomlFile& file_;
  LimitsFile result_;
};

}  // namespace

Result<LimitsFile> read_limits_file(const std::filesystem::path& path, const std::string& name) {
  const Result<TomlFile> file = read_toml(path, name);
  if (!file) return file.error();
  return Reader(*file).read();
}

std::vector<std::string> unused_groups(const LimitsFile& file, const std::set<std::string>& used) {
  std::vector<std::string> warnings;
  const std::vector<std::string> names(used.begin(), used.end());
  for (const auto& [group, place] : file.places) {
    if (used.contains(group)) continue;
    const std::string what = fmt::format("{}: no job is in group \"{}\"", place, group);
    const auto near = nearest(group, names);
    // Only a name that has no limit of its own can be the one that was meant.
    const bool meant = near && !file.limits.groups.contains(*near);
    warnings.push_back(meant ? fmt::format("{}\ndid you mean: {}", what, *near) : what);
  }
  return warnings;
}

}  // namespace keyway::cli
