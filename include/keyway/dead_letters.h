// Where records go that are given up.
#pragma once

#include "keyway/detail/require_cpp20.h"

#include <chrono>
#include <optional>
#include <string_view>

#include "keyway/error.h"
#include "keyway/record.h"

namespace keyway {

struct DeadLetter {
  const Record* record = nullptr;
  std::string_view source{};     // its name
  std::string_view id{};         // Source::id_of()
  std::string_view unique_id{};  // Source::unique_id_of(); empty: not known
  int attempts = 0;              // 0: it was not tried
  std::string_view cause{};
  std::optional<int> exit{};  // of a handler that is a program
  std::string_view stderr_tail{};
  std::chrono::system_clock::time_point first{};  // when it was first tried
  std::chrono::system_clock::time_point last{};
};

// Thread safety: store() from any thread.
class DeadLetters {
 public:
  virtual ~DeadLetters() = default;
  // When it returns the record is stored for good: the watermark may pass it. An error stops the pipeline.
  virtual Result<void> store(const DeadLetter& letter) = 0;
};

}  // namespace keyway
