// JSON as it may stand inside an HTML page's <script>.
//
//   ScriptJson json; json.open('{').key("id").text(id).key("times").open('[').number(1).number(2)
//   .close(']').close('}'); json.str();
//
// Guarantees: what the texts contain cannot end the script or begin a comment or a tag: < > & are
// written as \u003c and so on. Bytes that are not UTF-8 become U+FFFD.
// REQUIRES: calls in an order that makes JSON.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace keyway {

class ScriptJson {
 public:
  ScriptJson& open(char bracket) {
    separate();
    json_ += bracket;
    needs_comma_ = false;
    return *this;
  }
  ScriptJson& close(char bracket) {
    json_ += bracket;
    needs_comma_ = true;
    return *this;
  }
  ScriptJson& key(std::string_view name) {
    text(name);
    json_ += ':';
    needs_comma_ = false;
    return *this;
  }
  ScriptJson& text(std::string_view value);
  ScriptJson& number(std::int64_t value);
  ScriptJson& number(std::uint64_t value) { return number(static_cast<std::int64_t>(value)); }
  ScriptJson& number(int value) { return number(static_cast<std::int64_t>(value)); }
  // Four digits; 0 if it is not finite.
  ScriptJson& number(double value);

  template <class Numbers>
  ScriptJson& numbers(const Numbers& values) {
    open('[');
    for (const auto& value : values) number(value);
    return close(']');
  }

  std::string str() && { return std::move(json_); }

 private:
  void separate() {
    if (needs_comma_) json_ += ',';
    needs_comma_ = true;
  }

  std::string json_;
  bool needs_comma_ = false;
};

// As text between tags, or in quotes as the value of an attribute.
std::string html_text(std::string_view text);

}  // namespace keyway
