#include "serial/worker_thread.h"

#include <atomic>
#include <latch>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/thread_wakeup.h"
#include "support/jobs.h"

namespace keyway {
namespace {

class WorkerThreadTest : public ::testing::Test {
 protected:
  ServiceThread timers_{[] { return false; }, [] { return false; }};
  std::optional<WorkerThread> worker_{std::in_place, timers_};
};

TEST_F(WorkerThreadTest, RunsEverythingOnOneThreadInTheOrderOfPosting) {
  std::vector<int> order;
  std::vector<std::thread::id> threads;
  std::vector<std::unique_ptr<Job>> jobs;
  for (int i = 0; i < 1000; ++i) {
    jobs.push_back(std::make_unique<Job>([&, i] {
      order.push_back(i);
      threads.push_back(std::this_thread::get_id());
    }));
    worker_->post(*jobs.back());
  }
  worker_.reset();
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
  EXPECT_EQ(std::vector(1000, threads.front()), threads);
}

TEST_F(WorkerThreadTest, LosesNoWakeUpWhateverTheMoment) {
  for (int round = 0; round < 20'000; ++round) {
    std::latch ran(1);
    Job job([&] { ran.count_down(); });
    for (int i = round % 400; i > 0; --i) std::atomic_signal_fence(std::memory_order_seq_cst);
    worker_->post(job);
    ran.wait();
    worker_->wait_for_turns_in_progress();
  }
}

TEST_F(WorkerThreadTest, RunsAgainWhatSaysSo) {
  Repeater repeater(100);
  worker_->post(repeater);
  worker_.reset();
  EXPECT_EQ(repeater.rounds, 100);
}

TEST_F(WorkerThreadTest, ATimerFiresWhileTheThreadIsAtWork) {
  struct Alarm final : Timer {
    void fire() override { fired.count_down(); }
    std::latch fired{1};
  } alarm;
  std::latch done(1);
  Job job([&] {
    worker_->add_timer(alarm, worker_->now());
    alarm.fired.wait();
    done.count_down();
  });
  worker_->post(job);
  done.wait();
}

TEST_F(WorkerThreadTest, RunsNothingElseWhileAnItemWaits) {
  EXPECT_EQ(worker_->max_threads(), 1U);
  std::atomic<bool> inner_ran = false;
  std::latch done(2);
  Job inner([&] {
    inner_ran = true;
    done.count_down();
  });
  Job outer([&] {
    EXPECT_EQ(Scheduler::current(), &*worker_);
    worker_->post(inner);
    ThreadWakeup wakeup;
    const TimePoint deadline = worker_->now() + std::chrono::milliseconds(1);
    EXPECT_EQ(block(wakeup, {.deadline = &deadline}), WaitEnd::kTimedOut);
    EXPECT_FALSE(inner_ran);
    done.count_down();
  });
  worker_->post(outer);
  done.wait();
  EXPECT_TRUE(inner_ran);
}

TEST_F(WorkerThreadTest, ATurnInProgressIsWaitedForUntilADeadlineUnlessItBlocks) {
  std::latch busy(1);
  std::latch blocks(1);
  std::latch blocked(1);
  std::latch open(1);
  Job job([&] {
    busy.count_down();
    blocks.wait();
    worker_->begin_blocking();
    blocked.count_down();
    open.wait();
    worker_->end_blocking();
  });
  worker_->post(job);
  busy.wait();
  const TimePoint deadline = worker_->now() + std::chrono::milliseconds(5);
  EXPECT_FALSE(worker_->wait_for_turns_in_progress(&deadline));
  blocks.count_down();
  EXPECT_TRUE(worker_->wait_for_turns_in_progress());
  blocked.wait();
  open.count_down();
  worker_.reset();
}

}  // namespace
}  // namespace keyway
