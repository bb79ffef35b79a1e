#include "cli/replay_words.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>

namespace keyway::cli {
namespace {

constexpr std::array<std::string_view, 13> kOfReplay = {
    "jobs", "limit",   "limits", "retries", "backoff", "timeout", "grace",
    "halt", "on-dead", "worker", "http",    "shell",   "report"};
// What is shown, and where things are kept, is each call's own.
constexpr std::array<std::string_view, 10> kNotKept = {
    "fresh", "dry-run", "report", "progress", "json", "quiet", "verbose", "color", "state", "name"};
constexpr std::array<std::string_view, 5> kShown = {"progress", "json", "quiet", "verbose",
                                                    "color"};

bool has(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// A file is the same one wherever the words are read.
std::string value_of(const OptionSpec& option, const std::string& text) {
  constexpr std::string_view kSqlite = "sqlite:";
  const auto absolute = [](const std::string& path) {
    return std::filesystem::absolute(path).string();
  };
  if (option.name == "dedup" && text.starts_with(kSqlite)) {
    return std::string(kSqlite) + absolute(text.substr(kSqlite.size()));
  }
  const bool is_file = option.kind == ValueKind::kFile && text != "log";
  return is_file ? absolute(text) : text;
}

void append_flag(std::vector<std::string>& words, const OptionSpec& option,
                 const Setting& setting) {
  if (!option.value.empty()) {
    words.push_back(option.flag() + "=" + value_of(option, setting.text));
  } else if (setting.text == "true") {
    words.push_back(option.flag());
  }
}

bool names_handler(const std::string& word) {
  return word == "--worker" || word == "--shell" || word.starts_with("--http=");
}

}  // namespace

std::vector<std::string> run_words(const Invocation& run) {
  std::vector<std::string> words;
  for (const OptionSpec& option : run.spec.options) {
    const Setting* const setting = run.settings.find(option.name);
    if (setting == nullptr || setting->source == Source::kBuiltIn) continue;
    if (!has(kNotKept, option.name)) append_flag(words, option, *setting);
  }
  words.insert(words.end(), run.arguments.begin(), run.arguments.end());
  words.emplace_back("--");
  words.insert(words.end(), run.command.begin(), run.command.end());
  return words;
}

bool is_of_replay(std::string_view option) { return has(kOfReplay, option); }

std::vector<std::string> replay_words(const std::vector<std::string>& run, const Invocation& replay,
                                      const std::string& state_folder) {
  const auto end = std::ranges::find(run, "--");
  std::vector<std::string> words(run.begin(), end);
  std::vector<std::string> command(end == run.end() ? end : end + 1, run.end());
  if (run.empty()) words.emplace_back("-");  // it reads nothing
  if (!replay.command.empty() || replay.settings.source("http") == Source::kFlag) {
    std::erase_if(words, names_handler);
    command = replay.command;
  }
  for (const OptionSpec& option : replay.spec.options) {
    const Setting* const setting = replay.settings.find(option.name);
    if (setting == nullptr || setting->source != Source::kFlag) continue;
    if (is_of_replay(option.name) || has(kShown, option.name)) append_flag(words, option, *setting);
  }
  words.push_back("--state=" + state_folder);
  words.emplace_back("--");
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

}  // namespace keyway::cli
