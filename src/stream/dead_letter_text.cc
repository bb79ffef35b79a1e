#include "stream/dead_letter_text.h"

#include <algorithm>
#include <bit>

#include <simdjson.h>

#include "base/base64.h"
#include "base/json_text.h"
#include "base/time_text.h"

namespace keyway {
namespace {

void append_name(std::string& text, std::string_view name) {
  if (text.back() != '{') text += ',';
  text += '"';
  text += name;
  text += "\":";
}

// For people: what is no UTF-8 becomes U+FFFD. The end of a program's output may begin inside a character.
void append_readable(std::string& text, std::string_view name, std::string_view value) {
  append_name(text, name);
  if (simdjson::validate_utf8(value)) return append_json_string(text, value);
  std::string valid;
  while (!value.empty()) {
    const int ones = std::countl_one(static_cast<unsigned char>(value.front()));
    const std::string_view letter = value.substr(0, static_cast<std::size_t>(std::max(ones, 1)));
    const bool ok = simdjson::validate_utf8(letter);
    valid += ok ? letter : std::string_view("\xef\xbf\xbd");
    value.remove_prefix(ok ? letter.size() : 1);
  }
  append_json_string(text, valid);
}

// For programs: any bytes come back as they were.
void append_exact(std::string& text, std::string_view name, std::string_view value) {
  if (simdjson::validate_utf8(value)) {
    append_name(text, name);
    return append_json_string(text, value);
  }
  append_name(text, std::string(name) + "_b64");
  text += '"';
  text += base64_encode(value);
  text += '"';
}

void append_exact(std::string& text, std::string_view name, std::optional<std::string_view> value) {
  if (value) return append_exact(text, name, *value);
  append_name(text, name);
  text += "null";
}

void append_time(std::string& text, std::string_view name,
                 std::chrono::system_clock::time_point time) {
  append_name(text, name);
  text += '"';
  keyway::append_time(text, time);
  text += '"';
}

template <class Number>
void append_number(std::string& text, std::string_view name, Number number) {
  append_name(text, name);
  text += std::to_string(number);
}

// What is embedded as it is must come out as it was: so it has no spaces around it, nor a line break. A JSON string is
// embedded as text is, so that text can be told from it.
bool can_be_embedded(std::string_view value) {
  constexpr std::string_view kSpaces = " \t\r\n";
  return !value.empty() && value.front() != '"' &&
         kSpaces.find(value.front()) == std::string_view::npos &&
         kSpaces.find(value.back()) == std::string_view::npos &&
         value.find_first_of("\r\n") == std::string_view::npos && is_json(value);
}

void append_record(std::string& text, std::string_view name, std::string_view value) {
  if (!can_be_embedded(value)) return append_exact(text, name, value);
  append_name(text, name);
  text += value;
}

}  // namespace

bool is_json(std::string_view text) {
  simdjson::dom::parser parser;
  simdjson::dom::element ignored;
  return parser.parse(text.data(), text.size()).get(ignored) == simdjson::SUCCESS;
}

void append_dead_letter(std::string& text, const DeadLetter& letter) {
  const Record& record = *letter.record;
  text += '{';
  append_exact(text, "id", letter.id);
  append_exact(text, "key", record.key);
  append_exact(text, "group", record.group ? record.group : record.key);
  append_number(text, "attempts", letter.attempts);
  append_time(text, "first", letter.first);
  append_time(text, "last", letter.last);
  append_readable(text, "cause", letter.cause);
  append_name(text, "exit");
  text += letter.exit ? std::to_string(*letter.exit) : "null";
  append_readable(text, "stderr_tail", letter.stderr_tail);
  append_name(text, "source");
  text += '{';
  append_readable(text, "topic", letter.source);
  append_number(text, "partition", record.partition);
  append_number(text, "offset", record.offset);
  text += '}';
  append_exact(text, "unique_id",
               letter.unique_id.empty() ? std::nullopt : std::optional(letter.unique_id));
  append_record(text, "record", record.value);
  text += "}\n";
}

void append_poison_pill(std::string& text, const DeadLetter& letter) {
  const Record& record = *letter.record;
  text += R"({"severity":"ERROR","event_type":"POISON_PILL")";
  append_time(text, "time", letter.last);
  append_exact(text, "id", letter.id);
  append_exact(text, "key", record.key);
  append_number(text, "attempts", letter.attempts);
  append_readable(text, "cause", letter.cause);
  append_record(text, "payload", record.value);
  text += '}';
}

}  // namespace keyway
