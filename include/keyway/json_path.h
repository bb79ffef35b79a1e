// Where in a JSON value to look: ".user", ".order.customer", ".items[0].id", ".[\"a name\"].x"; "." is the whole value.
//
//   Result<JsonPath> path = JsonPath::parse(".order.customer");
//   path->find(R"({"order":{"customer":"u7"}})")      // "u7"
//
// Of a name that an object has twice, the first one counts. Only what lies on the way is looked at closely: a value with
// a fault behind it may pass as JSON.
//
// Thread safety: find() from any thread.
#pragma once

#include "keyway/detail/require_cpp20.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "keyway/error.h"

namespace keyway {

class JsonPath {
 public:
  // kInvalidArgument: it is no path; the message says where.
  static Result<JsonPath> parse(std::string_view text);

  const std::string& text() const { return text_; }

  // The value there as text: a string unescaped, a number, true or false as written, an object or array as its JSON.
  // Absent, or null: nothing. An error (kInvalidArgument): `json` is not JSON.
  Result<std::optional<std::string>> find(std::string_view json) const;

  struct Step {
    std::string name{};                  // of a field
    std::optional<std::size_t> index{};  // or which one of an array, from 0
    bool operator==(const Step&) const = default;
  };
  const std::vector<Step>& steps() const { return steps_; }

 private:
  JsonPath(std::string text, std::vector<Step> steps)
      : text_(std::move(text)), steps_(std::move(steps)) {}

  std::string text_;
  std::vector<Step> steps_;
};

}  // namespace keyway
