// JSON, written: one object on one line.
//
//   JsonObject object;
//   object.add("ok", 6).add("name", "a \"b\"").add("running", inner);
//   object.text();                      // {"ok":6,"name":"a \"b\"","running":{...}}
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace keyway::cli {

// In quotes. What is not UTF-8 becomes U+FFFD.
std::string json_quoted(std::string_view text);

class JsonObject {
 public:
  JsonObject& add(std::string_view name, std::string_view value) {
    return add_raw(name, json_quoted(value));
  }
  JsonObject& add(std::string_view name, const char* value) {
    return add(name, std::string_view(value));
  }
  JsonObject& add(std::string_view name, bool value) {
    return add_raw(name, value ? "true" : "false");
  }
  template <std::integral Number>
  JsonObject& add(std::string_view name, Number value) {
    return add_raw(name, std::to_string(value));
  }
  JsonObject& add(std::string_view name, double value);  // up to three places
  JsonObject& add(std::string_view name, const JsonObject& value) {
    return add_raw(name, value.text());
  }
  JsonObject& add(std::string_view name, std::span<const JsonObject> values);
  JsonObject& add_null(std::string_view name) { return add_raw(name, "null"); }

  std::string text() const { return "{" + members_ + "}"; }

 private:
  JsonObject& add_raw(std::string_view name, std::string_view json);

  std::string members_;
};

}  // namespace keyway::cli
