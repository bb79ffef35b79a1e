#include "cli/json_text.h"

#include <fmt/format.h>

#include "cli/human_text.h"

namespace keyway::cli {

std::string json_quoted(std::string_view text) {
  std::string quoted = "\"";
  while (!text.empty()) {
    const std::size_t bytes = utf8_length(text);
    const char first = text.front();
    if (bytes == 0) {
      quoted += "\xef\xbf\xbd";
    } else if (first == '"' || first == '\\') {
      quoted += '\\';
      quoted += first;
    } else if (first == '\n') {
      quoted += "\\n";
    } else if (static_cast<unsigned char>(first) < 0x20) {
      quoted += fmt::format("\\u{:04x}", static_cast<unsigned char>(first));
    } else {
      quoted += text.substr(0, bytes);
    }
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return quoted + "\"";
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
