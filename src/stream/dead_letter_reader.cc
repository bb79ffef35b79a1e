#include "stream/dead_letter_reader.h"

#include <cerrno>
#include <cstdlib>
#include <limits>
#include <utility>

#include <fcntl.h>
#include <simdjson.h>

#include "base/base64.h"
#include "base/file_descriptor.h"
#include "base/system_error.h"
#include "base/time_text.h"

namespace keyway {
namespace {

namespace json = simdjson::ondemand;

// Takes a line apart, field by field. Every read says whether it was of the form it must have.
class Fields {
 public:
  bool read(json::object object, StoredLetter& letter) {
    for (auto&& each : object) {
      json::field field;
      std::string_view name;
      if (std::move(each).get(field) != 0 || field.unescaped_key().get(name) != 0) return false;
      // The name is in a buffer that the value's own text may need.
      if (!read_field(std::string(name), field.value(), letter)) return false;
    }
    return has_id_ && has_record_;
  }

 private:
  bool read_field(std::string_view name, json::value value, StoredLetter& letter) {
    if (name == "id" || name == "id_b64") return has_id_ = text(name, value, letter.id);
    if (name == "record" || name == "record_b64") {
      return has_record_ = record(name, value, letter.record);
    }
    if (name == "key" || name == "key_b64") return optional_text(name, value, letter.key);
    if (name == "group" || name == "group_b64") return optional_text(name, value, letter.group);
    if (name == "unique_id" || name == "unique_id_b64") {
      return optional_text(name, value, letter.unique_id);
    }
    if (name == "attempts") return number(value, letter.attempts);
    if (name == "first") return time(value, letter.first);
    if (name == "last") return time(value, letter.last);
    if (name == "cause") return text(name, value, letter.cause);
    if (name == "stderr_tail") return text(name, value, letter.stderr_tail);
    if (name == "exit") {
      int exit = 0;
      if (value.is_null()) return true;
      if (!number(value, exit)) return false;
      letter.exit = exit;
      return true;
    }
    if (name == "source") return source(value, letter);
    // What a later version may have added.
    std::string_view ignored;
    return raw(value, ignored);
  }

  static bool text(std::string_view name, json::value value, std::string& to) {
    std::string_view from;
    if (value.get_string().get(from) != 0) return false;
    if (!name.ends_with("_b64")) {
      to = from;
      return true;
    }
    std::optional<std::string> bytes = base64_decode(from);
    if (bytes) to = std::move(*bytes);
    return bytes.has_value();
  }

  static bool optional_text(std::string_view name, json::value value,
                            std::optional<std::string>& to) {
    if (value.is_null()) return true;
    return text(name, value, to.emplace());
  }

  template <class Number>
  static bool number(json::value value, Number& to) {
    std::int64_t from = 0;
    if (value.get_int64().get(from) != 0 || from < std::numeric_limits<Number>::min() ||
        from > std::numeric_limits<Number>::max()) {
      return false;
    }
    to = static_cast<Number>(from);
    return true;
  }

  static bool time(json::value value, std::chrono::system_clock::time_point& to) {
    std::string_view from;
    if (value.get_string().get(from) != 0) return false;
    const auto parsed = parse_time(from);
    if (parsed) to = *parsed;
    return parsed.has_value();
  }

  static bool source(json::value value, StoredLetter& letter) {
    json::object object;
    std::string_view topic;
    if (value.get_object().get(object) != 0 || object["topic"].get_string().get(topic) != 0) {
      return false;
    }
    letter.source = topic;
    json::value partition;
    json::value offset;
    return object["partition"].get(partition) == 0 && number(partition, letter.partition) &&
           object["offset"].get(offset) == 0 && number(offset, letter.offset);
  }

  static bool record(std::string_view name, json::value value, std::string& to) {
    json::json_type type{};
    if (value.type().get(type) != 0) return false;
    if (type == json::json_type::string) return text(name, value, to);
    std::string_view from;
    if (name != "record" || !raw(value, from)) return false;
    to = from;
    return true;
  }

  // The value's own text, without spaces around it.
  static bool raw(json::value value, std::string_view& text) {
    json::json_type type{};
    if (value.type().get(type) != 0) return false;
    if (type == json::json_type::object) {
      json::object object;
      if (value.get_object().get(object) != 0 || object.raw_json().get(text) != 0) return false;
    } else if (type == json::json_type::array) {
      json::array array;
      if (value.get_array().get(array) != 0 || array.raw_json().get(text) != 0) return false;
    } else {
      text = value.raw_json_token();
    }
    text = text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
    return true;
  }

  bool has_id_ = false;
  bool has_record_ = false;
};

}  // namespace

std::optional<StoredLetter> parse_dead_letter(std::string_view line) {
  // Fields that nobody looks at in detail, such as the record, would pass with anything in them.
  if (simdjson::dom::parser whole; whole.parse(line.data(), line.size()).error() != 0) {
    return std::nullopt;
  }
  json::parser parser;
  const simdjson::padded_string padded(line);
  json::document document;
  json::object object;
  StoredLetter letter;
  if (parser.iterate(padded).get(document) != 0 || document.get_object().get(object) != 0 ||
      !Fields().read(object, letter)) {
    return std::nullopt;
  }
  return letter;
}

DeadLetterReader::Buffer::Buffer(Buffer&& other) noexcept
    : text(std::exchange(other.text, nullptr)), capacity(std::exchange(other.capacity, 0)) {}

DeadLetterReader::Buffer& DeadLetterReader::Buffer::operator=(Buffer&& other) noexcept {
  std::swap(text, other.text);
  std::swap(capacity, other.capacity);
  return *this;
}

// NOLINTNEXTLINE(cppcoreguidelines-no-malloc): getline() allocates it.
DeadLetterReader::Buffer::~Buffer() { std::free(text); }

Result<DeadLetterReader> DeadLetterReader::open(const std::string& path) {
  DeadLetterReader reader;
  reader.path_ = path;
  reader.file_.reset(std::fopen(path.c_str(), "re"));
  if (reader.file_ == nullptr && errno != ENOENT) {
    return system_error("cannot open " + path, errno);
  }
  return reader;
}

Result<DeadLetterReader::Next> DeadLetterReader::next() {
  if (file_ == nullptr) return Next::kEnd;
  errno = 0;
  const ssize_t got = getline(&buffer_.text, &buffer_.capacity, file_.get());
  if (got < 0) {
    if (std::feof(file_.get()) == 0) return system_error("cannot read " + path_, errno);
    return Next::kEnd;
  }
  length_ = static_cast<std::size_t>(got);
  begin_ = end_;
  end_ += static_cast<Offset>(got);
  ++number_;
  const bool whole = buffer_.text[length_ - 1] == '\n';
  if (whole) --length_;
  std::optional<StoredLetter> letter = parse_dead_letter(line());
  if (!letter) return whole ? Next::kDamaged : Next::kTorn;
  letter_ = std::move(*letter);
  return Next::kLetter;
}

Result<void> DeadLetterReader::seek(Offset begin) {
  if (begin == end_ || file_ == nullptr) return {};
  if (fseeko(file_.get(), begin, SEEK_SET) != 0) {
    return system_error("cannot read " + path_, errno);
  }
  end_ = begin;
  return {};
}

}  // namespace keyway
