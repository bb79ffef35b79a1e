#include "exec/interrupts.h"

#include <cerrno>

#include <poll.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "support/own_process.h"

namespace keyway::exec {
namespace {

using Clock = Interrupts::Clock;
using std::chrono::milliseconds;

// Blocks until something interrupts it.
void block() {
  EXPECT_EQ(poll(nullptr, 0, -1), -1);
  EXPECT_EQ(errno, EINTR);
}

TEST(Interrupts, EndABlockingCallAtTheTimeAndAgainAfterIt) {
  expect_ends([] {
    Interrupts interrupts;
    const auto time = Clock::now() + milliseconds(20);
    interrupts.wake_at(time);
    block();
    EXPECT_GE(Clock::now(), time);
    block();  // one that begins too late is ended as well
    EXPECT_EQ(interrupts.signal(), 0);
    interrupts.wake_at(Clock::time_point());  // long ago
    block();
  });
}

TEST(Interrupts, EndACallThatBeginsAfterTheSignal) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    expect_ends([number] {
      Interrupts interrupts;
      interrupts.wake_at(std::nullopt);
      raise(number);
      block();
      EXPECT_EQ(interrupts.signal(), number);
      interrupts.wake_at(std::nullopt);  // does not forget it
      block();
    });
  }
}

TEST(Interrupts, LeaveWhatWasIgnoredAndRestoreWhatWas) {
  expect_ends([] {
    std::signal(SIGINT, SIG_IGN);
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
    {
      Interrupts interrupts;
      raise(SIGINT);
      EXPECT_EQ(interrupts.signal(), 0);
      interrupts.wake_at(Clock::now());
      block();
    }
    struct sigaction now{};
    sigaction(SIGTERM, nullptr, &now);
    EXPECT_EQ(now.sa_handler, SIG_DFL);
    pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
    EXPECT_EQ(sigismember(&blocked, SIGALRM), 1);
    EXPECT_EQ(sigismember(&blocked, SIGTERM), 0);
  });
}

TEST(Interrupts, PassOnASignalThatNobodyAskedFor) {
  EXPECT_EXIT(
      {
        {
          const Interrupts interrupts;
          raise(SIGTERM);
        }
        _exit(0);
      },
      ::testing::KilledBySignal(SIGTERM), "");
}

}  // namespace
}  // namespace keyway::exec
