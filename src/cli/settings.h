// The value of each option, and where it comes from: a flag, the environment, the project's file,
// the user's file, or Keyway itself, in this order of strength.
//
//   Result<int> jobs = settings.number("jobs", 1, 10'000);   // the error names its source
//
// Values are text until they are asked for: so every source is checked by the same words.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "keyway/error.h"

namespace keyway::cli {

struct OptionSpec;

// In ascending order of strength.
enum class Source { kBuiltIn, kUserFile, kProjectFile, kEnvironment, kFlag };

struct Setting {
  std::string text;
  Source source = Source::kBuiltIn;
  std::string where;  // "keyway.toml:3:8" for a file; else empty
};

class Settings {
 public:
  explicit Settings(std::span<const OptionSpec> options) : options_(options) {}

  // A stronger source wins; of two equal ones, the later.
  void set(std::string_view option, Setting setting);

  const Setting* find(std::string_view option) const;
  Source source(std::string_view option) const;  // kBuiltIn if it is not set

  bool is_on(std::string_view option) const;        // of a switch
  std::string text(std::string_view option) const;  // empty if it is not set
  Result<int> number(std::string_view option, int least, int most) const;
  Result<std::chrono::milliseconds> duration(std::string_view option) const;
  Result<std::string> choice(std::string_view option) const;

  // Why the value of `option` is not taken, with a valid one in the form of its source:
  // "--jobs 8", "KEYWAY_JOBS=8", "jobs = 8".
  Error refuse(std::string_view option, std::string_view why) const;

 private:
  const OptionSpec& spec(std::string_view option) const;

  std::span<const OptionSpec> options_;
  std::map<std::string, Setting, std::less<>> values_;
};

// How a source is called in `keyway config`: "flag", "KEYWAY_JOBS", "keyway.toml:3:8", "built-in".
std::string describe_source(const OptionSpec& option, const Setting& setting);

}  // namespace keyway::cli
