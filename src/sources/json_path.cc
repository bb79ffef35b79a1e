#include "keyway/json_path.h"

#include <charconv>

#include "base/json_text.h"
#include "sources/json_reader.h"

namespace keyway {

namespace {

// Reads a path from its beginning to its end.
class PathParser {
 public:
  explicit PathParser(std::string_view text) : text_(text) {}

  Result<std::vector<JsonPath::Step>> parse() {
    if (!text_.starts_with('.')) {
      const std::string with_dot = "." + std::string(text_);
      const bool is_path = with_dot != "." && PathParser(with_dot).parse().ok();
      return wrong("it must begin with a dot", is_path ? with_dot : ".name");
    }
    at_ = 1;
    if (at_ < text_.size() && text_[at_] != '[') {
      if (Result<void> read = read_name(); !read) return read.error();
    }
    while (at_ < text_.size()) {
      const bool is_name = text_[at_] == '.';
      ++at_;
      if (Result<void> read = is_name ? read_name() : read_bracket(); !read) return read.error();
      if (at_ < text_.size() && text_[at_] != '.' && text_[at_] != '[') {
        return wrong("a dot or a bracket must follow", ".a.b or .a[0]");
      }
    }
    return std::move(steps_);
  }

 private:
  Error wrong(std::string_view what, const std::string& instead) const {
    std::string message = "no JSON path: ";
    append_json_string(message, text_);
    message += ", at character " + std::to_string(at_ + 1) + ": ";
    message += what;
    return {ErrorCode::kInvalidArgument, message + "\n  try: " + instead};
  }

  Result<void> read_name() {
    const std::size_t end = std::min(text_.find_first_of(".[]\"", at_), text_.size());
    if (end == at_) return wrong("a name is missing", R"(.name, or .["a.name"])");
    steps_.push_back({std::string(text_.substr(at_, end - at_)), std::nullopt});
    at_ = end;
    return {};
  }

  // Behind the bracket that opens.
  Result<void> read_bracket() {
    if (at_ < text_.size() && text_[at_] == '"') return read_quoted();
    std::size_t index = 0;
    const char* const begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), index);
    if (error != std::errc() || end == begin) {
      return wrong("a number from 0, or a name in quotes, must stand in brackets", ".items[0]");
    }
    at_ = static_cast<std::size_t>(end - text_.data());
    steps_.push_back({{}, index});
    return close_bracket();
  }

  Result<void> read_quoted() {
    std::string name;
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
      name += text_[at_];
    }
    if (at_ == text_.size()) return wrong("the quote has no end", R"(.["a name"])");
    ++at_;
    steps_.push_back({std::move(name), std::nullopt});
    return close_bracket();
  }

  Result<void> close_bracket() {
    if (at_ == text_.size() || text_[at_] != ']') return wrong("a ] is missing", ".items[0]");
    ++at_;
    return {};
  }

  const std::string_view text_;
  std::size_t at_ = 0;
  std::vector<JsonPath::Step> steps_;
};

}  // namespace

Result<JsonPath> JsonPath::parse(std::string_view text) {
  Result<std::vector<Step>> steps = PathParser(text).parse();
  if (!steps) return steps.error();
  return JsonPath(std::string(text), *std::move(steps));
}

Result<std::optional<std::string>> JsonPath::find(std::string_view json) const {
  thread_local JsonReader reader;
  if (Result<void> read = reader.read(json); !read) return read.error();
  const Result<JsonReader::Found> found = reader.find(*this);
  if (!found) return found.error();
  if (found->kind == JsonReader::Found::kNothing) return std::optional<std::string>();
  return std::optional<std::string>(found->text);
}

}  // namespace keyway
