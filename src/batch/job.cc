#include "batch/job.h"

#include <array>
#include <cmath>

#include <simdjson.h>

#include "base/duration_text.h"
#include "base/json_text.h"
#include "base/suggest.h"

namespace keyway::batch {

namespace {

using simdjson::dom::element;

constexpr std::array<std::string_view, 9> kFields{"id",  "group",   "cmd",     "sh",    "env",
                                                  "cwd", "timeout", "retries", "weight"};
enum Field { kId, kGroup, kCmd, kSh, kEnv, kCwd, kTimeout, kRetries, kWeight, kUnknown };

// As ids and groups reach the library.
constexpr std::size_t kLongestName = 65'535;

Error wrong(std::string what, std::string_view next_step) {
  return {ErrorCode::kInvalidArgument, std::move(what) + "\n  try: " + std::string(next_step)};
}

std::string quoted(std::string_view text) {
  constexpr std::size_t kMost = 80;
  std::string json;
  append_json_string(json, text.substr(0, kMost));
  return json;
}

Field field_of(std::string_view name) {
  for (std::size_t i = 0; i < kFields.size(); ++i) {
    if (kFields[i] == name) return static_cast<Field>(i);
  }
  return kUnknown;
}

Error unknown_field(std::string_view name) {
  const std::string_view near = suggest(name, kFields);
  return wrong("unknown field " + quoted(name),
               near.empty() ? "one of id, group, cmd, sh, env, cwd, timeout, retries, weight"
                            : quoted(near));
}

bool has_nul(std::string_view text) { return text.find('\0') != std::string_view::npos; }

Result<void> read_name(std::string_view field, element value, std::string& name) {
  if (value.is_string()) {
    name = std::string_view(value);
  } else if (value.is_int64() || value.is_uint64()) {
    name = simdjson::minify(value);
  } else {
    return wrong("\"" + std::string(field) + "\" must be a text",
                 "\"" + std::string(field) + "\":\"a-name\"");
  }
  if (name.empty() || name.size() > kLongestName || has_nul(name)) {
    return wrong("\"" + std::string(field) + "\" must have 1 to 65535 bytes, and no NUL",
                 "leave it out, or give it a name");
  }
  return {};
}

Result<void> read_argv(element value, Job& job) {
  constexpr std::string_view kExample = R"("cmd":["convert","-resize","50%","a.png","b.png"])";
  if (!value.is_array()) return wrong("\"cmd\" must be a list of texts", kExample);
  for (const element word : simdjson::dom::array(value)) {
    if (!word.is_string()) {
      return wrong("\"cmd\" has " + std::string(simdjson::minify(word)) + ", which is no text",
                   "write it in quotes");
    }
    const std::string_view text = word;
    if (has_nul(text)) return wrong("\"cmd\" has a NUL, which no program can be given", kExample);
    job.argv.emplace_back(text);
  }
  if (job.argv.empty() || job.argv.front().empty()) {
    return wrong("\"cmd\" names no program", kExample);
  }
  return {};
}

Result<void> read_shell(element value, Job& job) {
  constexpr std::string_view kExample = R"("sh":"sort words | uniq -c")";
  if (!value.is_string()) return wrong("\"sh\" must be a text", kExample);
  const std::string_view text = value;
  if (text.empty() || has_nul(text)) return wrong("\"sh\" is empty, or has a NUL", kExample);
  job.argv = {"/bin/sh", "-c", std::string(text)};
  job.is_shell = true;
  return {};
}

Result<void> read_environment(element value, Job& job) {
  constexpr std::string_view kExample = R"("env":{"NAME":"value"})";
  if (!value.is_object()) return wrong("\"env\" must be an object", kExample);
  for (const auto [name, text] : simdjson::dom::object(value)) {
    if (name.empty() || name.find('=') != std::string_view::npos || has_nul(name)) {
      return wrong("\"env\" has " + quoted(name) + ", which is no name of a variable", kExample);
    }
    if (!text.is_string() || has_nul(std::string_view(text))) {
      return wrong("\"env\" has a value for " + quoted(name) + " that is no text",
                   "write it in quotes");
    }
    job.environment.push_back(std::string(name) + "=" + std::string(std::string_view(text)));
  }
  return {};
}

Result<void> read_directory(element value, Job& job) {
  if (!value.is_string() || std::string_view(value).empty() || has_nul(std::string_view(value))) {
    return wrong("\"cwd\" must be the path of a directory", R"("cwd":"/tmp")");
  }
  job.directory = std::string_view(value);
  return {};
}

Result<void> read_timeout(element value, Job& job) {
  // A number is written like a text of seconds: one rule for both.
  const bool is_text = value.is_string();
  if (!is_text && !value.is_number()) {
    return wrong("\"timeout\" must be a number of seconds or a text", R"("timeout":"1.5m")");
  }
  double seconds = 0;
  if (!is_text && value.get(seconds) == simdjson::SUCCESS && seconds >= 0 && seconds < 1e9) {
    job.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(seconds * 1000)));
    return {};
  }
  const std::string text =
      is_text ? std::string(std::string_view(value)) : std::string(simdjson::minify(value));
  const auto parsed = parse_duration(text);
  if (!parsed) return wrong("\"timeout\": " + parsed.error().message, R"("timeout":"30s")");
  job.timeout = *parsed;
  return {};
}

Result<int> read_number(std::string_view field, element value, int least, int most) {
  std::int64_t number = 0;
  if (value.get(number) == simdjson::SUCCESS && number >= least && number <= most) {
    return static_cast<int>(number);
  }
  return wrong("\"" + std::string(field) + "\" is " + std::string(simdjson::minify(value)) +
                   "; it must be a whole number from " + std::to_string(least) + " to " +
                   std::to_string(most),
               "\"" + std::string(field) + "\":" + std::to_string(least));
}

Result<void> read_field(Field field, element value, Job& job) {
  switch (field) {
    case kId:
      return read_name("id", value, job.id);
    case kGroup:
      return read_name("group", value, job.group);
    case kCmd:
      return read_argv(value, job);
    case kSh:
      return read_shell(value, job);
    case kEnv:
      return read_environment(value, job);
    case kCwd:
      return read_directory(value, job);
    case kTimeout:
      return read_timeout(value, job);
    case kRetries: {
      const Result<int> number = read_number("retries", value, 0, kMostRetries);
      if (!number) return number.error();
      job.retries = *number;
      return {};
    }
    default: {
      const Result<int> number = read_number("weight", value, 1, kMostRetries);
      if (!number) return number.error();
      job.weight = *number;
      return {};
    }
  }
}

}  // namespace

class JobParser::Impl {
 public:
  Result<void> parse(std::string_view text, std::uint64_t line, Job& job);

 private:
  simdjson::dom::parser parser_;
};

Result<void> JobParser::Impl::parse(std::string_view text, std::uint64_t line, Job& job) {
  job.id.clear();
  job.group = kDefaultGroup;
  job.argv.clear();
  job.is_shell = false;
  job.environment.clear();
  job.directory.clear();
  job.timeout.reset();
  job.retries.reset();
  job.weight = 1;

  constexpr std::string_view kExample = R"({"id":"a","group":"db","cmd":["echo","hello"]})";
  element document;
  const auto failure = parser_.parse(text.data(), text.size(), false).get(document);
  if (failure != simdjson::SUCCESS) {
    return wrong(std::string("no valid JSON: ") + simdjson::error_message(failure), kExample);
  }
  if (!document.is_object()) return wrong("a job must be a JSON object", kExample);
  unsigned seen = 0;
  for (const auto [name, value] : simdjson::dom::object(document)) {
    const Field field = field_of(name);
    if (field == kUnknown) return unknown_field(name);
    if ((seen & 1U << field) != 0) {
      return wrong("field " + quoted(name) + " is there twice", "leave one of them");
    }
    seen |= 1U << field;
    if (const Result<void> read = read_field(field, value, job); !read) return read;
  }
  const bool has_cmd = (seen & 1U << kCmd) != 0;
  const bool has_sh = (seen & 1U << kSh) != 0;
  if (has_cmd && has_sh) return wrong("both \"cmd\" and \"sh\" are there", "leave one of them");
  if (!has_cmd && !has_sh) return wrong("nothing to run: neither \"cmd\" nor \"sh\"", kExample);
  if (job.id.empty()) job.id = std::to_string(line);
  return {};
}

JobParser::JobParser() : impl_(std::make_unique<Impl>()) {}
JobParser::~JobParser() = default;
JobParser::JobParser(JobParser&&) noexcept = default;
JobParser& JobParser::operator=(JobParser&&) noexcept = default;

Result<void> JobParser::parse(std::string_view text, std::uint64_t line, Job& job) {
  return impl_->parse(text, line, job);
}

}  // namespace keyway::batch
