// Reads JSON, for tests that look at what was written. It accepts nothing that is not JSON.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace keyway {

class Json {
 public:
  // Throws std::runtime_error, which says where.
  static Json parse(std::string_view text) {
    Reader reader{text};
    Json result = reader.value();
    reader.skip_space();
    if (reader.at != text.size()) reader.fail("something after the end");
    return result;
  }

  double number() const { return require(Kind::kNumber), number_; }
  const std::string& text() const { return require(Kind::kText), text_; }
  std::size_t size() const { return require(Kind::kList), list_.size(); }
  bool has(const std::string& key) const { return object_.contains(key); }
  const Json& operator[](int i) const {
    return require(Kind::kList), list_.at(static_cast<std::size_t>(i));
  }
  const Json& operator[](const char* key) const {
    require(Kind::kObject);
    const auto found = object_.find(key);
    if (found == object_.end()) throw std::runtime_error("no \"" + std::string(key) + "\"");
    return found->second;
  }
  auto begin() const { return list_.begin(); }
  auto end() const { return list_.end(); }

 private:
  enum class Kind { kWord, kNumber, kText, kList, kObject };

  void require(Kind kind) const {
    if (kind_ != kind) throw std::runtime_error("another kind of value");
  }

  struct Reader {
    std::string_view text;
    std::size_t at = 0;

    [[noreturn]] void fail(const std::string& what) const {
      throw std::runtime_error("at " + std::to_string(at) + ": " + what);
    }
    char peek() const { return at < text.size() ? text[at] : '\0'; }
    void skip_space() {
      while (peek() == ' ' || peek() == '\n' || peek() == '\t' || peek() == '\r') ++at;
    }
    bool take(char c) {
      skip_space();
      if (peek() != c) return false;
      ++at;
      return true;
    }
    void need(char c) {
      if (!take(c)) fail(std::string("no ") + c);
    }

    Json value() {
      Json result;
      if (take('{')) {
        result.kind_ = Kind::kObject;
        if (take('}')) return result;
        do {
          need('"');
          std::string key = string();
          need(':');
          if (!result.object_.emplace(key, value()).second) fail("\"" + key + "\" twice");
        } while (take(','));
        need('}');
      } else if (take('[')) {
        result.kind_ = Kind::kList;
        if (take(']')) return result;
        do result.list_.push_back(value());
        while (take(','));
        need(']');
      } else if (take('"')) {
        result.kind_ = Kind::kText;
        result.text_ = string();
      } else {
        word(result);
      }
      return result;
    }

    void word(Json& result) {
      for (const std::string_view name : {"true", "false", "null"}) {
        if (!text.substr(at).starts_with(name)) continue;
        at += name.size();
        return;
      }
      const std::size_t end = std::min(text.find_first_not_of("+-.0123456789eE", at), text.size());
      const std::string digits(text.substr(at, end - at));
      char* stopped = nullptr;
      result.kind_ = Kind::kNumber;
      result.number_ = std::strtod(digits.c_str(), &stopped);
      if (digits.empty() || *stopped != '\0' || digits[0] == '+') fail("no value");
      at = end;
    }

    std::string string() {
      std::string result;
      for (;; ++at) {
        const char c = peek();
        if (at >= text.size()) fail("the text does not end");
        if (static_cast<unsigned char>(c) < 0x20) fail("a control character");
        if (c == '"') break;
        if (c != '\\') {
          result += c;
          continue;
        }
        ++at;
        switch (peek()) {
          case '"':
          case '\\':
          case '/':
            result += peek();
            break;
          case 'n':
            result += '\n';
            break;
          case 't':
            result += '\t';
            break;
          case 'r':
            result += '\r';
            break;
          case 'u':
            result += ascii();
            break;
          default:
            fail("an unknown escape");
        }
      }
      ++at;
      return result;
    }
    // What Keyway writes as \u is below 128.
    char ascii() {
      const std::string digits(text.substr(at + 1, 4));
      char* stopped = nullptr;
      const long code = std::strtol(digits.c_str(), &stopped, 16);
      if (digits.size() != 4 || *stopped != '\0' || code >= 128) fail("\\u" + digits);
      at += 4;
      return static_cast<char>(code);
    }
  };

  Kind kind_ = Kind::kWord;
  double number_ = 0;
  std::string text_;
  std::vector<Json> list_;
  std::map<std::string, Json> object_;
};

}  // namespace keyway
