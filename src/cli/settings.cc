#include "cli/settings.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "base/duration_text.h"
#include "cli/command.h"
#include "cli/human_text.h"
#include "cli/nearest.h"

namespace keyway::cli {
namespace {

std::string joined(const std::vector<std::string>& words, std::string_view between) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : std::string(between)) + word;
  return line;
}

// As the value is written in a TOML file.
std::string toml_text(const OptionSpec& option, const std::string& value) {
  return option.kind == ValueKind::kNumber ? value : fmt::format("\"{}\"", value);
}

std::string in_form_of(Source source, const OptionSpec& option, const std::string& value) {
  switch (source) {
    case Source::kEnvironment:
      return fmt::format("{}={}", option.environment_name(), value);
    case Source::kProjectFile:
    case Source::kUserFile:
      return fmt::format("{} = {}", option.name, toml_text(option, value));
    case Source::kFlag:
    case Source::kBuiltIn:
      break;
  }
  return fmt::format("{} {}", option.flag(), value);
}

std::string name_in(const Setting& setting, const OptionSpec& option) {
  switch (setting.source) {
    case Source::kEnvironment:
      return option.environment_name();
    case Source::kProjectFile:
    case Source::kUserFile:
      return setting.where + ": " + option.name;
    case Source::kFlag:
    case Source::kBuiltIn:
      break;
  }
  return option.flag();
}

}  // namespace

void Settings::set(std::string_view option, Setting setting) {
  const auto found = values_.find(option);
  if (found == values_.end()) {
    values_.emplace(option, std::move(setting));
  } else if (setting.source >= found->second.source) {
    found->second = std::move(setting);
  }
}

const Setting* Settings::find(std::string_view option) const {
  const auto found = values_.find(option);
  return found == values_.end() ? nullptr : &found->second;
}

Source Settings::source(std::string_view option) const {
  const Setting* const setting = find(option);
  return setting == nullptr ? Source::kBuiltIn : setting->source;
}

bool Settings::is_on(std::string_view option) const { return text(option) == "true"; }

std::string Settings::text(std::string_view option) const {
  const Setting* const setting = find(option);
  return setting == nullptr ? std::string() : setting->text;
}

Result<int> Settings::number(std::string_view option, int least, int most) const {
  const std::string value = text(option);
  int number = 0;
  const char* const end = value.data() + value.size();
  const auto [stop, failure] = std::from_chars(value.data(), end, number);
  if (failure != std::errc() || stop != end || number < least || number > most) {
    return refuse(option, fmt::format("must be a whole number from {} to {}",
                                      grouped(static_cast<std::uint64_t>(least)),
                                      grouped(static_cast<std::uint64_t>(most))));
  }
  return number;
}

Result<std::chrono::milliseconds> Settings::duration(std::string_view option) const {
  const Result<std::chrono::milliseconds> parsed = parse_duration(text(option));
  if (!parsed) return refuse(option, "must be a time such as 500ms, 30s, 5m or 1h");
  return *parsed;
}

Result<std::string> Settings::choice(std::string_view option) const {
  std::string value = text(option);
  const OptionSpec& of = spec(option);
  if (std::ranges::find(of.choices, value) != of.choices.end()) return value;
  return refuse(option, "must be one of " + joined(of.choices, ", "));
}

Error Settings::refuse(std::string_view option, std::string_view why) const {
  const OptionSpec& of = spec(option);
  const Setting* const found = find(option);
  const Setting setting = found == nullptr ? Setting{} : *found;
  std::string value = of.valid_example();
  if (of.kind == ValueKind::kChoice) {
    if (const auto near = nearest(setting.text, of.choices)) value = *near;
  }
  return {ErrorCode::kInvalidArgument,
          with_next_step(fmt::format("{} \"{}\": {}", name_in(setting, of), setting.text, why),
                         in_form_of(setting.source, of, value))};
}

const OptionSpec& Settings::spec(std::string_view option) const {
  const auto found = std::ranges::find(options_, option, &OptionSpec::name);
  KEYWAY_CHECK(found != options_.end(), "only an option of the command is asked for");
  return *found;
}

std::string describe_source(const OptionSpec& option, const Setting& setting) {
  switch (setting.source) {
    case Source::kFlag:
      return "flag";
    case Source::kEnvironment:
      return option.environment_name();
    case Source::kProjectFile:
    case Source::kUserFile:
      return setting.where;
    case Source::kBuiltIn:
      break;
  }
  return "built-in";
}

}  // namespace keyway::cli
