#include "runtime/blocked_probe.h"

#include <atomic>
#include <chrono>
#include <latch>
#include <optional>
#include <thread>

#include <gtest/gtest.h>

namespace keyway {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

// A thread with a probe on it: it blocks, works, and ends when it is told.
class Probed {
 public:
  explicit Probed(bool works) {
    thread_ = std::thread([this, works] {
      BlockedProbe probe;
      probe_ = &probe;
      ready_.count_down();
      if (works) {
        while (!stop_) {
        }
      } else {
        stop_.wait(false);
      }
      over_.wait();
    });
    ready_.wait();
  }
  ~Probed() {
    stop_ = true;
    stop_.notify_all();
    over_.count_down();
    thread_.join();
  }
  // As a pool does it: a look every millisecond or so.
  bool blocked_after(std::chrono::milliseconds time) {
    const auto end = steady_clock::now() + time;
    while (steady_clock::now() < end) std::this_thread::yield();
    return probe_.load()->blocked(steady_clock::now());
  }

 private:
  std::atomic<BlockedProbe*> probe_{nullptr};
  std::latch ready_{1};
  std::atomic<bool> stop_{false};
  std::latch over_{1};
  std::thread thread_;
};

TEST(BlockedProbe, AThreadThatSleepsInTheKernelIsBlocked) {
  Probed sleeper(/*works=*/false);
  // It may still be on its way to sleep at the first looks.
  bool blocked = false;
  for (int look = 0; look < 1000 && !blocked; ++look) blocked = sleeper.blocked_after(2ms);
  EXPECT_TRUE(blocked);
}

TEST(BlockedProbe, AThreadThatWorksIsNotBlockedEvenIfItGetsNoCore) {
  Probed first(/*works=*/true);
  Probed second(/*works=*/true);
  Probed third(/*works=*/true);
  for (int look = 0; look < 50; ++look) {
    EXPECT_FALSE(first.blocked_after(1ms));
    EXPECT_FALSE(second.blocked_after(0ms));
    EXPECT_FALSE(third.blocked_after(0ms));
  }
}

}  // namespace
}  // namespace keyway
