#include "keyway/json_keys.h"

#include <memory>
#include <optional>
#include <utility>

#include "base/hash_key.h"
#include "sources/json_reader.h"

namespace keyway {

namespace {

// A text that a record needs besides those of its buffer, with that buffer.
struct TextAndBuffer {
  std::string text;
  std::shared_ptr<const void> buffer;
};

std::string_view keep(Record& record, std::string_view text) {
  auto kept = std::make_shared<TextAndBuffer>(std::string(text), std::move(record.buffer));
  const std::string_view view = kept->text;
  record.buffer = std::move(kept);
  return view;
}

class JsonKeys {
 public:
  JsonKeys(std::optional<JsonPath> key, std::optional<JsonPath> group, KeyMissing on_missing,
           std::string name)
      : key_(std::move(key)),
        group_(std::move(group)),
        on_missing_(on_missing),
        name_(std::move(name)) {}

  Result<bool> classify(Record& record) {
    if (is_blank(record.value)) return false;
    const Result<void> read = reader_.read(record.value);
    for (const auto& [path, field] :
         {std::pair(&key_, &Record::key), std::pair(&group_, &Record::group)}) {
      if (!*path) continue;
      const Result<void> put =
          read ? find(record, **path, record.*field) : Result<void>(read.error());
      if (put) continue;
      switch (on_missing_) {
        case KeyMissing::kFail:
          return put.error();
        case KeyMissing::kDead:
          record.defect = put.error().message;
          return true;
        case KeyMissing::kSkip:
          return false;
        case KeyMissing::kName:
          record.*field = keep(record, name_);
      }
    }
    return true;
  }

 private:
  Result<void> find(Record& record, const JsonPath& path, std::optional<std::string_view>& field) {
    const Result<JsonReader::Found> found = reader_.find(path);
    if (!found) return found.error();
    if (found->kind == JsonReader::Found::kNothing) {
      return Error{ErrorCode::kInvalidArgument, "no value at " + path.text()};
    }
    if (found->text.size() > kMaxKeyBytes) {
      return Error{ErrorCode::kInvalidArgument,
                   "the value at " + path.text() + " has " + std::to_string(found->text.size()) +
                       " bytes; a key has at most " + std::to_string(kMaxKeyBytes)};
    }
    field = found->kind == JsonReader::Found::kUnescaped ? keep(record, found->text) : found->text;
    return {};
  }

  const std::optional<JsonPath> key_;
  const std::optional<JsonPath> group_;
  const KeyMissing on_missing_;
  const std::string name_;
  JsonReader reader_;
};

Result<std::optional<JsonPath>> parse(const std::string& text) {
  if (text.empty()) return std::optional<JsonPath>();
  Result<JsonPath> path = JsonPath::parse(text);
  if (!path) return path.error();
  return std::optional<JsonPath>(*std::move(path));
}

}  // namespace

Result<std::function<Result<bool>(Record&)>> json_keys(JsonKeysOptions options) {
  Result<std::optional<JsonPath>> key = parse(options.key);
  if (!key) return key.error();
  Result<std::optional<JsonPath>> group = parse(options.group);
  if (!group) return group.error();
  auto keys = std::make_shared<JsonKeys>(*std::move(key), *std::move(group), options.on_missing,
                                         std::move(options.name));
  return std::function<Result<bool>(Record&)>(
      [keys = std::move(keys)](Record& record) { return keys->classify(record); });
}

}  // namespace keyway
