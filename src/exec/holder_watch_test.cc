#include "exec/holder_watch.h"

#include <csignal>

#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace keyway::exec {
namespace {

using Clock = std::chrono::steady_clock;

// A process that does nothing until it is killed.
class Idler {
 public:
  Idler() : pid_(fork()) {
    if (pid_ != 0) return;
    while (true) pause();
  }
  ~Idler() {
    end();
    waitpid(pid_, nullptr, 0);
  }
  Idler(const Idler&) = delete;
  Idler& operator=(const Idler&) = delete;

  int pid() const { return pid_; }
  // It stays, as a zombie.
  void end() const {
    kill(pid_, SIGKILL);
    siginfo_t info{};
    waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT);
  }

 private:
  const pid_t pid_;
};

constexpr std::chrono::milliseconds kShort(10);
constexpr std::chrono::minutes kLong(1);

// Whether the next wait is cut short; none is cut short that lasts as long as `pause`.
bool is_cut_short(HolderWatch& watch, const std::vector<SlotRecord>& holders,
                  std::chrono::milliseconds pause) {
  const auto begin = Clock::now();
  EXPECT_EQ(watch.wait(holders), 0);
  return Clock::now() - begin < pause;
}

TEST(HolderWatch, IsToldWhenOneOfThemEnds) {
  const Idler one;
  const Idler other;
  HolderWatch watch(kLong, kLong);
  other.end();
  EXPECT_TRUE(is_cut_short(watch, {{.pid = one.pid()}, {.pid = other.pid()}}, kLong));
}

TEST(HolderWatch, IsToldOnceThoughAZombieStays) {
  const Idler one;
  const Idler other;
  const std::vector<SlotRecord> holders = {{.pid = one.pid()}, {.pid = other.pid()}};
  HolderWatch watch(kShort, kShort);
  other.end();
  EXPECT_EQ(watch.wait(holders), 0);
  EXPECT_FALSE(is_cut_short(watch, holders, kShort));
  EXPECT_FALSE(is_cut_short(watch, holders, kShort));
}

TEST(HolderWatch, LooksAtTheCommandOnlyWhenItsKeywayIsGone) {
  const Idler taker;
  const Idler command;
  const std::vector<SlotRecord> holders = {{.pid = taker.pid(), .command_pid = command.pid()}};
  command.end();
  HolderWatch before(kShort, kShort);
  EXPECT_FALSE(is_cut_short(before, holders, kShort));
  HolderWatch after(kLong, kLong);
  taker.end();
  EXPECT_TRUE(is_cut_short(after, holders, kLong));  // the one
  EXPECT_TRUE(is_cut_short(after, holders, kLong));  // and the other
}

TEST(HolderWatch, TakesAnIdThatCameAgainForAnotherProcess) {
  const Idler taker;
  taker.end();
  HolderWatch watch(kLong, kLong);
  EXPECT_TRUE(is_cut_short(watch, {{.pid = taker.pid(), .since_ns = 1}}, kLong));
  EXPECT_TRUE(is_cut_short(watch, {{.pid = taker.pid(), .since_ns = 2}}, kLong));
}

TEST(HolderWatch, LooksAgainAfterAWhileWhereNobodyCanBeWatched) {
  HolderWatch watch(kShort, kShort);
  EXPECT_FALSE(is_cut_short(watch, {{}, {.pid = 0x7ffffffe}}, kShort));
}

}  // namespace
}  // namespace keyway::exec
