// Workers that are real processes.
#include <csignal>

#include <gtest/gtest.h>

#include "handlers/attempts_fixture.h"
#include "handlers/handlers.h"
#include "process/event_loop.h"
#include "process/system_processes.h"
#include "support/jobs.h"

namespace keyway::run {
namespace {

using namespace std::chrono_literals;

class RealWorkers : public ::testing::Test {
 protected:
  void make(const std::string& mode, WorkerOptions options) {
    options.argv = {KEYWAY_WORKER_PROBE, mode};
    options.on_stderr = [this](std::string_view lines) { errors_ += lines; };
    handler_ = make_worker_handler(std::move(options), loop_, processes_).value();
  }
  Handled handle(const std::string& value) {
    const TestRecord record(value);
    return sync_wait(loop_, handler_->handle(record.call()));
  }
  EventLoop loop_;
  SystemProcesses processes_{loop_, 8};
  std::unique_ptr<Handler> handler_;
  std::string errors_;
};

TEST_F(RealWorkers, HandleRecordsAndFinish) {
  make("say-bye", {.workers = 2});
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(handle("{\"i\":" + std::to_string(i) + "}").outcome.kind, Outcome::kDone);
  }
  ASSERT_EQ(handle(std::string(10 << 20, '1')).outcome.kind, Outcome::kDone);
  handler_->no_more();
  sync_wait(loop_, handler_->finished());
  EXPECT_EQ(errors_, "bye\n");
}

TEST_F(RealWorkers, ManyAtOnceAreAllAnswered) {
  make("ok", {.workers = 2, .max_inflight = 50});
  Attempts attempts(loop_);
  std::vector<Attempts::One*> ones;
  for (int i = 0; i < 2000; ++i) {
    ones.push_back(&attempts.start(*handler_, "{}", "f:" + std::to_string(i)));
  }
  for (Attempts::One* one : ones) {
    while (!one->is_over) ASSERT_TRUE(loop_.run_one());
    EXPECT_EQ(one->handled().outcome.kind, Outcome::kDone);
  }
}

TEST_F(RealWorkers, DieAndAreStartedAgain) {
  make("die", {.workers = 1});
  EXPECT_EQ(handle("1").outcome.kind, Outcome::kDone);
  EXPECT_EQ(handle("\"die\"").outcome.reason, "its worker died: exit 7");
  EXPECT_EQ(handle("2").outcome.kind, Outcome::kDone);
}

TEST_F(RealWorkers, HangAndAreKilled) {
  make("hang", {.workers = 1, .timeout = 30ms, .grace = 30ms});
  const Handled handled = handle("\"hang\"");
  EXPECT_TRUE(handled.timed_out);
  EXPECT_EQ(handled.signal, SIGKILL);
  // On a busy machine the next one may take longer than its time, too.
  EXPECT_TRUE(eventually([&] { return handle("2").outcome.kind == Outcome::kDone; }));
}

}  // namespace
}  // namespace keyway::run
