#include "handlers/json_check.h"

#include <vector>

#include <simdjson.h>

namespace keyway::run {

namespace {

// What the quick parser has no room for (a number beyond 64 bits, a thousand levels) is JSON all the same. It has seen
// before that the text is UTF-8.
class SlowCheck {
 public:
  explicit SlowCheck(std::string_view text) : rest_(text) {}

  bool passes() {
    if (!value()) return false;
    while (!open_.empty()) {
      skip_space();
      const bool in_object = open_.back();
      if (take(in_object ? '}' : ']')) {
        open_.pop_back();
      } else if (!take(',') || (in_object && !name()) || !value()) {
        return false;
      }
    }
    skip_space();
    return rest_.empty();
  }

 private:
  // Up to the end of a scalar or of an empty container; or to the end of the first value of others.
  bool value() {
    for (;;) {
      skip_space();
      if (rest_.empty()) return false;
      const char first = rest_.front();
      if (first == '"') return string();
      if (first == '-' || is_digit(first)) return number();
      if (first != '{' && first != '[') return word("true") || word("false") || word("null");
      rest_.remove_prefix(1);
      skip_space();
      const bool is_object = first == '{';
      if (take(is_object ? '}' : ']')) return true;
      open_.push_back(is_object);
      if (is_object && !name()) return false;
    }
  }
  bool name() {
    skip_space();
    if (!string()) return false;
    skip_space();
    return take(':');
  }
  bool string() {
    if (!take('"')) return false;
    while (!rest_.empty()) {
      const char letter = rest_.front();
      rest_.remove_prefix(1);
      if (letter == '"') return true;
      if (static_cast<unsigned char>(letter) < 0x20) return false;
      if (letter == '\\' && !escape()) return false;
    }
    return false;
  }
  bool escape() {
    if (rest_.empty()) return false;
    const char letter = rest_.front();
    rest_.remove_prefix(1);
    if (letter != 'u') return std::string_view("\"\\/bfnrt").find(letter) != rest_.npos;
    constexpr std::string_view kHex = "0123456789abcdefABCDEF";
    for (int i = 0; i < 4; ++i) {
      if (rest_.empty() || kHex.find(rest_.front()) == rest_.npos) return false;
      rest_.remove_prefix(1);
    }
    return true;
  }
  bool number() {
    take('-');
    if (!take('0') && !digits()) return false;
    if (take('.') && !digits()) return false;
    if (take('e') || take('E')) {
      if (!take('+')) take('-');
      return digits();
    }
    return true;
  }
  bool digits() {
    const std::size_t before = rest_.size();
    while (!rest_.empty() && is_digit(rest_.front())) rest_.remove_prefix(1);
    return rest_.size() < before;
  }
  bool word(std::string_view wanted) {
    if (!rest_.starts_with(wanted)) return false;
    rest_.remove_prefix(wanted.size());
    return true;
  }
  bool take(char wanted) {
    if (rest_.empty() || rest_.front() != wanted) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void skip_space() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size()));
  }
  static bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

  std::string_view rest_;
  std::vector<bool> open_;  // true: an object
};

bool passes(simdjson::error_code error, std::string_view text) {
  if (error == simdjson::SUCCESS) return true;
  const bool is_beyond_it = error == simdjson::NUMBER_ERROR || error == simdjson::DEPTH_ERROR;
  return is_beyond_it && is_utf8(text) && SlowCheck(text).passes();
}

}  // namespace

struct JsonCheck::Parser {
  simdjson::dom::parser parser;
};

static_assert(JsonCheck::kPadding >= simdjson::SIMDJSON_PADDING);

JsonCheck::JsonCheck() : parser_(std::make_unique<Parser>()) {}
JsonCheck::~JsonCheck() = default;

bool JsonCheck::is_json_in_place(std::string_view padded) {
  return passes(parser_->parser.parse(padded.data(), padded.size(), false).error(), padded);
}

bool JsonCheck::is_json(std::string_view text) {
  return passes(parser_->parser.parse(text.data(), text.size(), true).error(), text);
}

bool is_utf8(std::string_view text) { return simdjson::validate_utf8(text.data(), text.size()); }

}  // namespace keyway::run
