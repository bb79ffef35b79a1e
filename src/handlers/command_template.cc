#include "handlers/command_template.h"

#include <array>
#include <utility>

#include "base/suggest.h"

namespace keyway::run {

namespace {

constexpr std::string_view kTryBrace = "\n  try: {{ for a brace as it is";

Error invalid(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }

// One word for a shell, whatever is in it.
void append_quoted(std::string& text, std::string_view value) {
  text += '\'';
  for (const char letter : value) {
    if (letter == '\'') {
      text += "'\\''";
    } else {
      text += letter;
    }
  }
  text += '\'';
}

// As much of a shell's grammar as tells whether quotes would be taken as quotes.
class QuoteScanner {
 public:
  void scan(std::string_view text) {
    for (const char letter : text) step(letter);
  }
  bool in_quotes() const { return quote_ != '\0'; }
  bool escaped() const { return escaped_; }
  bool in_comment() const { return in_comment_; }
  bool has_here_document() const { return here_document_; }
  bool has_dollar_quote() const { return dollar_quote_; }
  void value() { before_ = 'x'; }

 private:
  void step(char letter) {
    const char before = std::exchange(before_, letter);
    if (in_comment_) {
      in_comment_ = letter != '\n';
    } else if (std::exchange(escaped_, false)) {
      before_ = 'x';
    } else if (quote_ == '\'') {
      if (letter == '\'') quote_ = '\0';
    } else if (letter == '\\') {
      escaped_ = true;
    } else if (quote_ == '"') {
      if (letter == '"') quote_ = '\0';
    } else if (letter == '\'' || letter == '"') {
      quote_ = letter;
      dollar_quote_ = dollar_quote_ || (letter == '\'' && before == '$');
    } else if (letter == '#') {
      in_comment_ = std::string_view(" \t\n;|&()").find(before) != std::string_view::npos;
    } else if (letter == '<' && before == '<') {
      here_document_ = true;
    }
  }

  char before_ = ' ';
  char quote_ = '\0';
  bool escaped_ = false;
  bool in_comment_ = false;
  bool here_document_ = false;
  bool dollar_quote_ = false;
};

}  // namespace

Result<CommandTemplate> CommandTemplate::parse(const std::vector<std::string>& argv, bool shell) {
  if (argv.empty() || argv.front().empty()) {
    return invalid("there is no command to run\n  try: -- COMMAND [ARGUMENT]...");
  }
  CommandTemplate made;
  made.shell_ = shell;
  std::vector<std::string> texts = argv;
  if (shell) {
    for (std::size_t i = 1; i < argv.size(); ++i) texts[0] += " " + argv[i];
    texts.resize(1);
  }
  for (const std::string& text : texts) {
    Result<Word> word = parse_word(text);
    if (!word) return word.error();
    if (shell) {
      if (const Result<void> safe = check_quotes(*word); !safe) return safe.error();
    }
    made.words_.push_back(std::move(*word));
  }
  return made;
}

Result<CommandTemplate::Word> CommandTemplate::parse_word(std::string_view text) {
  Word word;
  std::string plain;
  const auto end_plain = [&] {
    if (!plain.empty()) word.push_back({Kind::kText, std::exchange(plain, {}), {}});
  };
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] != '{') {
      plain += text[i++];
    } else if (text.substr(i).starts_with("{{")) {
      plain += '{';
      i += 2;
    } else {
      const std::size_t end = text.find('}', i);
      if (end == std::string_view::npos) {
        return invalid("a brace is not closed: " + std::string(text.substr(i)) +
                       std::string(kTryBrace));
      }
      Result<Part> part = parse_placeholder(text.substr(i, end + 1 - i));
      if (!part) return part.error();
      end_plain();
      word.push_back(std::move(*part));
      i = end + 1;
    }
  }
  end_plain();
  return word;
}

Result<CommandTemplate::Part> CommandTemplate::parse_placeholder(std::string_view written) {
  using Known = std::pair<std::string_view, Kind>;
  constexpr std::array<Known, 8> kKnown = {{{"{}", Kind::kRecord},
                                            {"{key}", Kind::kKey},
                                            {"{group}", Kind::kGroup},
                                            {"{id}", Kind::kId},
                                            {"{seq}", Kind::kSeq},
                                            {"{slot}", Kind::kSlot},
                                            {"{attempt}", Kind::kAttempt},
                                            {"{.path}", Kind::kPath}}};
  std::array<std::string_view, kKnown.size()> names;
  for (std::size_t i = 0; i < kKnown.size(); ++i) {
    const auto& [name, kind] = kKnown[i];
    names[i] = name;
    if (written == name && kind != Kind::kPath) return Part{kind, std::string(written), {}};
  }
  if (written.starts_with("{.")) {
    Result<JsonPath> path = JsonPath::parse(written.substr(1, written.size() - 2));
    if (!path) {
      return invalid("placeholder " + std::string(written) + ": " + path.error().message);
    }
    return Part{Kind::kPath, std::string(written), std::move(*path)};
  }
  std::string message = "there is no placeholder " + std::string(written);
  const std::string_view near = suggest(written, names);
  if (!near.empty()) return invalid(message + "\n  try: " + std::string(near));
  return invalid(
      message +
      "\n  try: {} {key} {group} {id} {seq} {slot} {attempt} {.path}, or {{ for a brace as it is");
}

Result<void> CommandTemplate::check_quotes(const Word& text) {
  QuoteScanner shell;
  bool has_values = false;
  for (const Part& part : text) {
    if (part.kind == Kind::kText) {
      shell.scan(part.text);
      continue;
    }
    has_values = true;
    if (shell.in_quotes() || shell.escaped()) {
      return invalid("placeholder " + part.text + " stands in quotes, or behind a backslash" +
                     "\n  try: it without them: its value is quoted already");
    }
    if (shell.in_comment()) return invalid("placeholder " + part.text + " stands in a comment");
    shell.value();
  }
  if (!has_values) return {};
  if (shell.has_here_document()) {
    return invalid(
        "a here-document (<<) cannot have placeholders beside it"
        "\n  try: the record from stdin, or \"$KEYWAY_KEY\" and its like");
  }
  if (shell.has_dollar_quote()) {
    return invalid("$'...' cannot have placeholders beside it\n  try: plain quotes");
  }
  return {};
}

bool CommandTemplate::has_fixed_program() const {
  for (const Part& part : words_.front()) {
    if (part.kind != Kind::kText) return shell_;
  }
  return true;
}

Result<std::string> CommandTemplate::value_of(const Part& part, const Call& call) {
  switch (part.kind) {
    case Kind::kText:
      return part.text;
    case Kind::kRecord:
      return std::string(call.record->value);
    case Kind::kKey:
      return std::string(call.key);
    case Kind::kGroup:
      return std::string(call.group);
    case Kind::kId:
      return std::string(call.id);
    case Kind::kSeq:
      return std::to_string(call.record->number);
    case Kind::kSlot:
      return std::to_string(call.slot);
    case Kind::kAttempt:
      return std::to_string(call.attempt.number);
    case Kind::kPath:
      break;
  }
  Result<std::optional<std::string>> found = part.path->find(call.record->value);
  if (!found) return found.error();
  if (!*found) return invalid("no value at " + part.path->text());
  return std::move(**found);
}

Result<std::vector<std::string>> CommandTemplate::fill(const Call& call) const {
  std::vector<std::string> argv;
  argv.reserve(words_.size() + 2);
  if (shell_) argv = {"/bin/sh", "-c"};
  for (const Word& word : words_) {
    std::string text;
    for (const Part& part : word) {
      Result<std::string> value = value_of(part, call);
      if (!value) return value.error();
      if (value->find('\0') != std::string::npos) {
        return invalid("the value of " + part.text +
                       " has a NUL byte, which no argument can have: take it from stdin");
      }
      if (shell_ && part.kind != Kind::kText) {
        append_quoted(text, *value);
      } else {
        text += *value;
      }
    }
    argv.push_back(std::move(text));
  }
  return argv;
}

}  // namespace keyway::run
