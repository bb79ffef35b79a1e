#include "sources/json_reader.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include <simdjson.h>

#include "base/json_text.h"

namespace keyway {

namespace {

namespace ondemand = simdjson::ondemand;
using simdjson::error_code;

// A parser that has seen a longer text is not kept for shorter ones.
constexpr std::size_t kKeptBytes = std::size_t{1} << 20;

constexpr bool is_space(char letter) {
  return letter == ' ' || letter == '\t' || letter == '\n' || letter == '\r';
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  return text;
}

Error not_json(std::string_view why) {
  return {ErrorCode::kInvalidArgument, "not JSON: " + std::string(why)};
}

Error not_json(error_code error) {
  switch (error) {
    case simdjson::EMPTY:
      return not_json("it is empty");
    case simdjson::UTF8_ERROR:
      return not_json("it is not UTF-8");
    case simdjson::UNCLOSED_STRING:
      return not_json("a string has no end");
    case simdjson::STRING_ERROR:
      return not_json("a string has an escape that does not exist");
    case simdjson::UNESCAPED_CHARS:
      return not_json("a string has a control character");
    case simdjson::INCOMPLETE_ARRAY_OR_OBJECT:
      return not_json("a closing brace or bracket is missing at its end");
    case simdjson::DEPTH_ERROR:
      return not_json("it is nested too deeply");
    case simdjson::TAPE_ERROR:
      return not_json("a comma, a colon, a bracket or a value is not where it should be");
    default:
      return not_json(simdjson::error_message(error));
  }
}

Error no_value(std::string_view token) {
  constexpr std::size_t kMost = 40;
  std::string json;
  append_json_string(json, token.substr(0, kMost));
  return not_json(json + " is no value");
}

bool is_number(std::string_view text) {
  const auto digits = [&] {
    const std::size_t before = text.size();
    while (!text.empty() && text.front() >= '0' && text.front() <= '9') text.remove_prefix(1);
    return before - text.size();
  };
  if (text.starts_with('-')) text.remove_prefix(1);
  const bool leading_zero = text.starts_with('0');
  const std::size_t whole = digits();
  if (whole == 0 || (leading_zero && whole > 1)) return false;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    if (digits() == 0) return false;
  }
  if (text.starts_with('e') || text.starts_with('E')) {
    text.remove_prefix(1);
    if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
    if (digits() == 0) return false;
  }
  return text.empty();
}

// From its first byte to that of the next token.
std::string_view token_of(ondemand::value& value) { return value.raw_json_token(); }
std::string_view token_of(ondemand::document& document) {
  std::string_view token;
  return document.raw_json_token().get(token) == simdjson::SUCCESS ? token : std::string_view();
}

// What the parser gives without unescaping, as a part of its copy; the one who called knows where that is in the text.
using Found = JsonReader::Found;

template <class Node>
Result<Found> string_of(Node& node) {
  const std::string_view token = trimmed(token_of(node));
  if (token.size() < 2 || token.back() != '"') return no_value(token);
  const std::string_view inside = token.substr(1, token.size() - 2);
  if (inside.find('\\') == std::string_view::npos) {
    if (inside.find('"') != std::string_view::npos) return no_value(token);
    return Found{Found::kPart, inside};
  }
  std::string_view text;
  if (const error_code error = node.get_string().get(text)) return not_json(error);
  return Found{Found::kUnescaped, text};
}

template <class Node>
Result<Found> text_of(Node& node) {
  ondemand::json_type type{};
  if (node.type().get(type)) return no_value(trimmed(token_of(node)));
  std::string_view text;
  error_code error = simdjson::SUCCESS;
  if (type == ondemand::json_type::object) {
    ondemand::object object;
    error = node.get_object().get(object);
    if (!error) error = object.raw_json().get(text);
  } else if (type == ondemand::json_type::array) {
    ondemand::array array;
    error = node.get_array().get(array);
    if (!error) error = array.raw_json().get(text);
  } else if (type == ondemand::json_type::string) {
    return string_of(node);
  } else {
    text = trimmed(token_of(node));
    if (text == "null") return Found{};
    if (text != "true" && text != "false" && !is_number(text)) return no_value(text);
  }
  if (error) return not_json(error);
  return Found{Found::kPart, trimmed(text)};
}

// Whether there is something; not, too, if what should have it is of another type.
Result<bool> was_found(error_code error) {
  switch (error) {
    case simdjson::SUCCESS:
      return true;
    case simdjson::NO_SUCH_FIELD:
    case simdjson::INDEX_OUT_OF_BOUNDS:
    case simdjson::INCORRECT_TYPE:
      return false;
    default:
      return not_json(error);
  }
}

// The parser compares names as they are written. Few are written with escapes: they are compared if nothing else fits.
error_code find_unescaped(ondemand::object& object, std::string_view name, ondemand::value& value) {
  for (auto each : object) {
    ondemand::field field;
    if (const error_code error = std::move(each).get(field)) return error;
    std::string_view key;
    if (const error_code error = field.unescaped_key().get(key)) return error;
    if (key != name) continue;
    value = field.value();
    return simdjson::SUCCESS;
  }
  return simdjson::NO_SUCH_FIELD;
}

template <class Node>
error_code go(Node& node, const JsonPath::Step& step, bool escaped, ondemand::value& value) {
  if (step.index) {
    ondemand::array array;
    if (const error_code error = node.get_array().get(array)) return error;
    return array.at(*step.index).get(value);
  }
  ondemand::object object;
  if (const error_code error = node.get_object().get(object)) return error;
  if (escaped) return find_unescaped(object, step.name, value);
  return object.find_field(step.name).get(value);
}

Result<Found> walk(ondemand::document& document, const std::vector<JsonPath::Step>& steps,
                   bool escaped) {
  ondemand::value value;
  Result<bool> found = was_found(go(document, steps.front(), escaped, value));
  for (std::size_t i = 1; found && *found && i < steps.size(); ++i) {
    ondemand::value next;
    found = was_found(go(value, steps[i], escaped, next));
    value = next;
  }
  if (!found) return found.error();
  if (!*found) return Found{};
  return text_of(value);
}

}  // namespace

struct JsonReader::Parser {
  explicit Parser(std::size_t bytes)
      : capacity(bytes), copy(std::make_unique_for_overwrite<char[]>(bytes)) {}

  ondemand::parser parser;
  std::size_t capacity;
  std::unique_ptr<char[]> copy;
  std::string_view text;
  std::optional<ondemand::document> document;
  bool is_fresh = true;
};

JsonReader::JsonReader() = default;
JsonReader::~JsonReader() = default;

Result<void> JsonReader::read(std::string_view json) {
  const std::size_t needed = json.size() + simdjson::SIMDJSON_PADDING;
  if (!parser_ || needed > parser_->capacity ||
      (parser_->capacity > kKeptBytes && needed <= kKeptBytes)) {
    parser_ = std::make_unique<Parser>(
        needed > kKeptBytes ? needed : std::max(2 * needed, std::size_t{4096}));
  }
  Parser& own = *parser_;
  std::memcpy(own.copy.get(), json.data(), json.size());
  std::memset(own.copy.get() + json.size(), ' ', simdjson::SIMDJSON_PADDING);
  own.text = json;
  own.is_fresh = true;
  own.document.emplace();
  const error_code error =
      own.parser.iterate(simdjson::padded_string_view(own.copy.get(), json.size(), needed))
          .get(*own.document);
  if (error) return not_json(error);
  return {};
}

Result<JsonReader::Found> JsonReader::find(const JsonPath& path) {
  Parser& own = *parser_;
  ondemand::document& document = *own.document;
  if (!own.is_fresh) document.rewind();
  own.is_fresh = false;
  const std::string_view whole = trimmed(own.text);
  const bool is_nested = whole.starts_with('{') || whole.starts_with('[');
  Result<Found> found = Found{};
  if (path.steps().empty() || !is_nested) {
    // Of a text that is a single value, this is the only look that there is.
    found = text_of(document);
    if (found && !is_nested) {
      document.rewind();
      if (trimmed(token_of(document)).size() != whole.size()) return no_value(whole);
      if (!path.steps().empty()) return Found{};
    }
  } else {
    found = walk(document, path.steps(), false);
    if (found && found->kind == Found::kNothing && own.text.find('\\') != std::string_view::npos) {
      document.rewind();
      found = walk(document, path.steps(), true);
    }
  }
  if (found && found->kind == Found::kPart) {
    found->text = own.text.substr(static_cast<std::size_t>(found->text.data() - own.copy.get()),
                                  found->text.size());
  }
  return found;
}

bool is_blank(std::string_view text) { return std::all_of(text.begin(), text.end(), is_space); }

}  // namespace keyway
