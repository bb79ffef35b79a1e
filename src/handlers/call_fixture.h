// Records for the tests of handlers.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "handlers/handler.h"

namespace keyway::run {

// A record with all that a call points to.
class TestRecord {
 public:
  explicit TestRecord(std::string value, std::string id = "f:7", std::string key = "u7")
      : value_(std::move(value)), id_(std::move(id)), key_(std::move(key)) {
    record_.value = value_;
    record_.partition = 2;
    record_.offset = 400;
    record_.number = 7;
    record_.key = key_;
  }
  TestRecord(const TestRecord&) = delete;
  TestRecord& operator=(const TestRecord&) = delete;

  Call call(int attempt = 1) const {
    return {.record = &record_,
            .attempt = {.number = attempt, .most = 4},
            .id = id_,
            .unique_id = "0123456789abcdef",
            .key = key_,
            .group = "vip",
            .source = "orders.jsonl",
            .slot = 3};
  }

 private:
  std::string value_;
  std::string id_;
  std::string key_;
  Record record_;
};

inline std::string text_of(const CapturedOutput& output) {
  std::string text(output.size(), '\0');
  text.resize(output.read(0, text).size());
  return text;
}

}  // namespace keyway::run
