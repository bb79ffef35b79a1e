// For tests of the dispatcher: what is the same for both routings.
#pragma once

#include <filesystem>
#include <iterator>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include <unistd.h>

#include <gtest/gtest.h>

#include "keyway/serial_dispatcher.h"
#include "support/jobs.h"

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

// How many threads this process has. The kernel lists a joined thread for a moment longer: compare with eventually().
inline std::ptrdiff_t thread_count() {
  // A sanitizer starts a thread of its own along with the first thread of the program, and keeps it. It must be there
  // before anything is counted.
  static const bool first_thread_is_gone = [] {
    std::filesystem::path task("/proc/self/task");
    std::thread([&] { task /= std::to_string(::gettid()); }).join();
    return eventually([&] { return !std::filesystem::exists(task); });
  }();
  EXPECT_TRUE(first_thread_is_gone);
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
