#include "cli/json_text.h"

#include <fmt/format.h>

#include "base/json_text.h"
#include "cli/human_text.h"

namespace keyway::cli {

std::string json_quoted(std::string_view text) {
  std::string valid;
  while (!text.empty()) {
    const std::size_t bytes = utf8_length(text);
    valid += bytes == 0 ? std::string_view("\xef\xbf\xbd") : text.substr(0, bytes);
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  std::string quoted;
  append_json_string(quoted, valid);
  return quoted;
}

JsonObject& JsonObject::add(std::string_view name, double value) {
  return add_raw(name, fmt::format("{:.3f}", value));
}

JsonObject& JsonObject::add(std::string_view name, std::span<const JsonObject> values) {
  std::string list;
  for (const JsonObject& value : values) list += (list.empty() ? "" : ",") + value.text();
  return add_raw(name, "[" + list + "]");
}

JsonObject& JsonObject::add_raw(std::string_view name, std::string_view json) {
  if (!members_.empty()) members_ += ',';
  members_ += json_quoted(name);
  members_ += ':';
  members_ += json;
  return *this;
}

}  // namespace keyway::cli
