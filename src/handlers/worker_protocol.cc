#include "handlers/worker_protocol.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include <simdjson.h>

#include "base/base64.h"
#include "base/json_text.h"
#include "handlers/attempt_text.h"
#include "handlers/json_check.h"

namespace keyway::run {

namespace {

namespace ondemand = simdjson::ondemand;

void append_number(std::string& line, std::uint64_t number) {
  char digits[20];
  const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  line.append(digits, static_cast<std::size_t>(end - digits));
}

// Of keys and ids, which a source may have from anywhere.
void append_text(std::string& line, std::string_view text) {
  if (is_utf8(text)) return append_json_string(line, text);
  std::string ascii(text);
  std::replace_if(
      ascii.begin(), ascii.end(), [](char letter) { return (letter & 0x80) != 0; }, '?');
  append_json_string(line, ascii);
}

bool has_line_break(std::string_view text) {
  return std::memchr(text.data(), '\n', text.size()) != nullptr ||
         std::memchr(text.data(), '\r', text.size()) != nullptr;
}

WorkerAnswer fault(std::string text) {
  WorkerAnswer answer;
  answer.fault = std::move(text);
  return answer;
}

// What a line has said so far.
struct Fields {
  WorkerAnswer answer;
  bool has_id = false;
  bool has_ok = false;
  std::string_view type;
  std::int64_t version = 1;
};

bool read_text_or_json(ondemand::value value, std::string_view& text) {
  ondemand::json_type type{};
  if (value.type().get(type) != simdjson::SUCCESS) return false;
  if (type == ondemand::json_type::string) return value.get_string().get(text) == simdjson::SUCCESS;
  const bool is_null = type == ondemand::json_type::null;
  if (simdjson::to_json_string(value).get(text) != simdjson::SUCCESS) return false;
  if (is_null) text = {};
  return true;
}

bool read_delay(ondemand::value value, std::optional<Duration>& delay) {
  bool is_null = false;
  if (value.is_null().get(is_null) == simdjson::SUCCESS && is_null) return true;
  double number = 0;
  if (value.get_double().get(number) != simdjson::SUCCESS || number < 0) return false;
  const std::chrono::duration<double, std::milli> wanted(number);
  delay = wanted < WorkerProtocol::kLongestDelay ? std::chrono::duration_cast<Duration>(wanted)
                                                 : WorkerProtocol::kLongestDelay;
  return true;
}

// False: the value is not what it must be.
bool read_field(Fields& fields, std::string_view name, ondemand::value value) {
  constexpr auto kOk = simdjson::SUCCESS;
  WorkerAnswer& answer = fields.answer;
  if (name == "id") return fields.has_id = value.get_string().get(answer.id) == kOk;
  if (name == "ok") return fields.has_ok = value.get_bool().get(answer.ok) == kOk;
  if (name == "out") {
    std::string_view raw;
    if (simdjson::to_json_string(value).get(raw) != kOk) return false;
    if (raw != "null") answer.out = raw;
    return true;
  }
  if (name == "error") return read_text_or_json(value, answer.error);
  if (name == "retry") return value.get_bool().get(answer.retry) == kOk;
  if (name == "retry_after_ms") return read_delay(value, answer.retry_after);
  if (name == "type") return value.get_string().get(fields.type) == kOk;
  if (name == "v") return value.get_int64().get(fields.version) == kOk;
  return true;
}

}  // namespace

struct WorkerProtocol::Parsers {
  ondemand::parser answers;
  JsonCheck check;
};

static_assert(WorkerProtocol::kPadding >= simdjson::SIMDJSON_PADDING);

WorkerProtocol::WorkerProtocol() : parsers_(std::make_unique<Parsers>()) {}
WorkerProtocol::~WorkerProtocol() = default;

std::string WorkerProtocol::hello(std::string_view run_id, int worker, int max_inflight) {
  std::string line = R"({"v":1,"type":"hello","run":)";
  append_text(line, run_id);
  line += R"(,"worker":)" + std::to_string(worker);
  line += R"(,"max_inflight":)" + std::to_string(max_inflight) + "}\n";
  return line;
}

bool WorkerProtocol::append_job(std::string& lines, const Call& call, Duration timeout) {
  if (call.record->value.size() > kLongestLine) return false;
  const std::size_t before = lines.size();
  lines += R"({"type":"job","id":)";
  append_text(lines, call.id);
  lines += R"(,"key":)";
  append_text(lines, call.key);
  lines += R"(,"group":)";
  append_text(lines, call.group);
  lines += R"(,"seq":)";
  append_number(lines, call.record->number);
  lines += R"(,"attempt":)";
  append_number(lines, static_cast<std::uint64_t>(call.attempt.number));
  if (timeout > Duration::zero()) {
    using std::chrono::milliseconds;
    lines += R"(,"deadline_ms":)";
    append_number(lines,
                  static_cast<std::uint64_t>(std::chrono::ceil<milliseconds>(timeout).count()));
  }
  append_record(lines, call.record->value);
  lines += "}\n";
  if (lines.size() - before <= kLongestLine + 1) return true;
  lines.resize(before);
  return false;
}

void WorkerProtocol::append_record(std::string& line, std::string_view value) {
  // Checked where it will stand: that is one copy for most records.
  const std::size_t before = line.size();
  line += R"(,"record":)";
  const std::size_t begin = line.size();
  const std::string_view json = value.substr(0, value.find_last_not_of(" \t\r\n") + 1);
  line += json;
  line.reserve(line.size() + kPadding);
  if (!has_line_break(json) &&
      parsers_->check.is_json_in_place(std::string_view(line).substr(begin))) {
    return;
  }
  line.resize(begin);
  if (is_utf8(value)) return append_json_string(line, value);
  line.resize(before);
  line += R"(,"record_b64":")";
  line += base64_encode(value);
  line += '"';
}

WorkerAnswer WorkerProtocol::parse(std::string_view line) {
  ondemand::document document;
  ondemand::object object;
  const auto iterated =
      parsers_->answers.iterate(line.data(), line.size(), line.size() + kPadding).get(document);
  if (iterated != simdjson::SUCCESS || document.get_object().get(object) != simdjson::SUCCESS) {
    return fault("is no JSON object");
  }
  Fields fields;
  for (auto field : object) {
    std::string_view name;
    ondemand::value value;
    if (field.unescaped_key().get(name) != simdjson::SUCCESS ||
        field.value().get(value) != simdjson::SUCCESS) {
      return fault("is no JSON object");
    }
    // A name without escapes is in the parser's memory, which the value may need.
    if (!read_field(fields, name, value)) {
      return fault("has a wrong \"" + excerpt(name, 40) + "\"");
    }
  }
  const char* behind = nullptr;
  if (document.current_location().get(behind) == simdjson::SUCCESS) {
    return fault("is more than one JSON object");
  }
  if (fields.version != 1) {
    return fault("speaks version " + std::to_string(fields.version) + ", not 1");
  }
  if (fields.type == "ready") {
    fields.answer.kind = WorkerAnswer::kReady;
  } else if (!fields.has_id || !fields.has_ok) {
    return fault("has no \"id\" and \"ok\"");
  } else if (!fields.answer.out.empty() && !parsers_->check.is_json(fields.answer.out)) {
    return fault("has an \"out\" that is no JSON");
  } else {
    fields.answer.kind = WorkerAnswer::kResult;
  }
  return std::move(fields.answer);
}

}  // namespace keyway::run
