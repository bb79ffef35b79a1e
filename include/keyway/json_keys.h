// Takes the key of a record, and its group, out of the JSON that its value is: for PipelineOptions::classify.
//
//   Result<std::function<Result<bool>(Record&)>> classify = json_keys({.key = ".user"});
//
// A value that is only white space is left out. Keys are texts as JsonPath::find() gives them, so 7 and "7" are the
// same key. What a record gets lives as long as its `buffer`, which is replaced if need be.
#pragma once

#include "keyway/detail/require_cpp20.h"

#include <functional>
#include <string>

#include "keyway/error.h"
#include "keyway/record.h"

namespace keyway {

// What becomes of a record that is not JSON, or has no value (or null, or more than 65,535 bytes) where its key or its
// group should be.
enum class KeyMissing {
  kFail,  // an error (kInvalidArgument)
  kDead,  // it has a defect, and becomes a dead letter
  kSkip,  // it is left out
  kName,  // `name` is used instead
};

struct JsonKeysOptions {
  std::string key{};    // a JsonPath; empty: records have no key
  std::string group{};  // a JsonPath; empty: no group
  KeyMissing on_missing = KeyMissing::kFail;
  std::string name{};
};

// kInvalidArgument: what is no path.
// The function is called by one thread at a time, and so are its copies together.
Result<std::function<Result<bool>(Record&)>> json_keys(JsonKeysOptions options);

}  // namespace keyway
