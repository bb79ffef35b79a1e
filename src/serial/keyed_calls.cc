#include "keyway/keyed_calls.h"

#include <string>

namespace keyway {

const char* to_string(SerialMode mode) {
  return mode == SerialMode::kBasic ? "basic" : "worker-queue";
}

Result<SerialMode> parse_serial_mode(std::string_view text) {
  for (const SerialMode mode : {SerialMode::kBasic, SerialMode::kWorkerQueue}) {
    if (text == to_string(mode)) return mode;
  }
  return Error{ErrorCode::kInvalidArgument,
               "the mode is \"" + std::string(text) + "\"; it must be basic or worker-queue"};
}

KeyedCalls::KeyedCalls(SerialMode mode, SerialOptions options) {
  if (const Result<void> valid = options.validate(); !valid) throw Exception(valid.error());
  if (mode == SerialMode::kWorkerQueue) dispatcher_.emplace(options);
}

}  // namespace keyway
