// Whether a text is one JSON value, as RFC 8259 has it: numbers of any size, and any depth.
//
// Thread safety: one thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

namespace keyway::run {

class JsonCheck {
 public:
  // How many bytes behind a text must be there to be read.
  static constexpr std::size_t kPadding = 64;

  JsonCheck();
  ~JsonCheck();

  // With kPadding: nothing is copied.
  bool is_json_in_place(std::string_view padded);
  bool is_json(std::string_view text);

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

bool is_utf8(std::string_view text);

}  // namespace keyway::run
