// For tests of the dispatcher: what is the same for both routings.
#pragma once

#include <filesystem>
#include <iterator>
#include <latch>
#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "keyway/serial_dispatcher.h"

namespace keyway {

class SerialRoutings : public ::testing::TestWithParam<Routing> {
 protected:
  SerialOptions options(SerialOptions chosen = {}) const {
    chosen.routing = GetParam();
    return chosen;
  }
};

inline std::string name_of_routing(const ::testing::TestParamInfo<Routing>& info) {
  return info.param == Routing::kPerKey ? "PerKey" : "Sticky";
}

// How many threads this process has.
inline std::ptrdiff_t thread_count() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

// A key whose lane is not that of `other`.
inline std::string key_apart_from(const SerialDispatcher& dispatcher, std::string_view other) {
  for (int i = 0;; ++i) {
    std::string key = "key-" + std::to_string(i);
    if (dispatcher.lane_of(key) != dispatcher.lane_of(other)) return key;
  }
}

// Keeps a lane busy until it is let go.
class Busy {
 public:
  Busy(SerialDispatcher& dispatcher, std::string_view key) {
    EXPECT_TRUE(dispatcher.post(key, [latches = latches_] {
      latches->began.count_down();
      latches->go.wait();
    }));
    latches_->began.wait();
  }
  ~Busy() { let_go(); }
  void let_go() {
    if (!std::exchange(gone_, true)) latches_->go.count_down();
  }

 private:
  struct Latches {
    std::latch began{1};
    std::latch go{1};
  };
  const std::shared_ptr<Latches> latches_ = std::make_shared<Latches>();
  bool gone_ = false;
};

}  // namespace keyway
