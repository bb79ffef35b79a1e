#include "sources/file/checkpoint.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <simdjson.h>
#include <unistd.h>

#include "base/file_descriptor.h"
#include "base/json_text.h"
#include "base/stable_hash.h"
#include "base/system_error.h"

namespace keyway {

namespace {

namespace dom = simdjson::dom;

constexpr std::int64_t kVersion = 1;

std::string checksum_line(std::string_view text) {
  StableHash hash;
  hash.add(text);
  return "{\"checksum\":\"" + hash.hex() + "\"}\n";
}

Error conflict(std::string message) { return {ErrorCode::kConflict, std::move(message)}; }

void append_file(std::string& text, const Checkpoint::File& file) {
  text += "{\"path\":";
  append_json_string(text, file.path);
  text += ",\"absolute\":";
  append_json_string(text, file.absolute);
  text += ",\"prefix_bytes\":" + std::to_string(file.prefix_bytes);
  text += ",\"prefix_hash\":";
  append_json_string(text, file.prefix_hash);
  text += ",\"watermark\":" + std::to_string(file.watermark);
  text += ",\"line\":" + std::to_string(file.line);
  text += ",\"done_above\":[";
  for (const OffsetRange& range : file.done_above) {
    if (text.back() == ']') text += ',';
    text += '[';
    text += std::to_string(range.begin);
    text += ',';
    text += std::to_string(range.end);
    text += ']';
  }
  text += "]}\n";
}

// Fields of one line; what is missing, or of another type, is remembered.
class Fields {
 public:
  explicit Fields(dom::element line) : line_(line) {}

  std::string text(const char* name) {
    std::string_view value;
    fails_ = line_[name].get(value) != simdjson::SUCCESS || fails_;
    return std::string(value);
  }
  std::int64_t number(const char* name) {
    std::int64_t value = 0;
    fails_ = line_[name].get(value) != simdjson::SUCCESS || value < 0 || fails_;
    return value;
  }
  GapMap ranges(const char* name) {
    GapMap map;
    dom::array array;
    fails_ = line_[name].get(array) != simdjson::SUCCESS || fails_;
    if (fails_) return map;
    for (const dom::element range : array) {
      OffsetRange& one = map.emplace_back();
      fails_ = range.at(0).get(one.begin) != simdjson::SUCCESS ||
               range.at(1).get(one.end) != simdjson::SUCCESS || fails_;
    }
    return map;
  }
  bool fails() const { return fails_; }

 private:
  const dom::element line_;
  bool fails_ = false;
};

// Whether it is what a pipeline can have committed.
bool is_sound(const Checkpoint::File& file) {
  Offset below = file.watermark;
  for (const OffsetRange& range : file.done_above) {
    if (range.begin < below || range.end <= range.begin) return false;
    below = range.end;
  }
  return file.line >= 1 && file.prefix_bytes <= Checkpoint::kMostPrefix;
}

}  // namespace

std::string storable(std::string_view text) {
  if (simdjson::validate_utf8(text.data(), text.size())) return std::string(text);
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string stored;
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if (byte < 0x80 && byte != '%') {
      stored += letter;
    } else {
      stored += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return stored;
}

std::string to_text(const Checkpoint& checkpoint) {
  std::string text = "{\"keyway\":\"checkpoint\",\"version\":" + std::to_string(kVersion);
  text += ",\"settings\":";
  append_json_string(text, checkpoint.settings);
  text += "}\n";
  for (const Checkpoint::File& file : checkpoint.files) append_file(text, file);
  return text += checksum_line(text);
}

Result<Checkpoint> checkpoint_of(std::string_view text) {
  const std::size_t length = checksum_line({}).size();
  if (text.size() < length) return conflict("it is cut off");
  const std::string_view content = text.substr(0, text.size() - length);
  if (text.substr(content.size()) != checksum_line(content)) {
    return conflict("its checksum does not fit its content");
  }
  Checkpoint checkpoint;
  dom::parser parser;
  bool is_first = true;
  for (std::size_t at = 0; at < content.size();) {
    const std::size_t end = std::min(content.find('\n', at), content.size());
    dom::element line;
    if (parser.parse(content.substr(at, end - at)).get(line)) return conflict("it is not JSON");
    Fields fields(line);
    if (is_first) {
      if (fields.number("version") != kVersion)
        return conflict("it is of another version of keyway");
      checkpoint.settings = fields.text("settings");
    } else {
      Checkpoint::File& file = checkpoint.files.emplace_back();
      file = {.path = fields.text("path"),
              .absolute = fields.text("absolute"),
              .prefix_bytes = static_cast<std::uint64_t>(fields.number("prefix_bytes")),
              .prefix_hash = fields.text("prefix_hash"),
              .watermark = fields.number("watermark"),
              .line = static_cast<std::uint64_t>(fields.number("line")),
              .done_above = fields.ranges("done_above")};
      if (!is_sound(file)) return conflict("its numbers cannot be");
    }
    if (fields.fails()) return conflict("a field is missing");
    is_first = false;
    at = end + 1;
  }
  if (is_first) return conflict("it is empty");
  return checkpoint;
}

Result<std::optional<Checkpoint>> read_checkpoint(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) {
    if (errno == ENOENT) return std::optional<Checkpoint>();
    return system_error("cannot read " + path, errno);
  }
  std::string text;
  char buffer[16384];
  while (const ssize_t got = read(file.get(), buffer, sizeof buffer)) {
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error("cannot read " + path, errno);
    text.append(buffer, static_cast<std::size_t>(got));
  }
  Result<Checkpoint> checkpoint = checkpoint_of(text);
  if (!checkpoint) {
    return conflict(path + " is damaged: " + checkpoint.error().message +
                    "\n  try: --fresh, to begin again: what was done is done again");
  }
  return std::optional<Checkpoint>(*std::move(checkpoint));
}

}  // namespace keyway
