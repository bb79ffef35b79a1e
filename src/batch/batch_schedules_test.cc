// Random runs in random orders, stopped at random moments and resumed until all is done: what must
// always be true, is.
#include <csignal>
#include <cstdlib>
#include <random>
#include <set>

#include "batch/runner_fixture.h"

namespace keyway::batch {
namespace {

std::uint64_t first_seed() {
  const char* text = std::getenv("KEYWAY_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 1;
}
std::uint64_t seeds_to_try() { return std::getenv("KEYWAY_SEED") != nullptr ? 1 : 60; }

class Chaos {
 public:
  explicit Chaos(std::uint64_t seed) : random_(seed) {
    options_.jobs_file = "jobs.jsonl";
    options_.jobs = 1 + below(6);
    options_.limits.standard.limit = 1 + below(3);
    options_.limits.groups["g0"] = {.limit = 1 + below(4), .max_in_flight = {}, .queue = {}};
    options_.retries = below(4);
    options_.backoff = {.first = Millis(below(200)), .most = Millis(200 + below(2000))};
    options_.timeout = below(2) == 0 ? Millis(0) : Millis(500 + below(1000));
    options_.grace = Millis(below(3000));
    options_.output = static_cast<OutputMode>(below(4));
    job_count_ = 1 + below(60);
    for (int i = 1; i <= job_count_; ++i) {
      const std::string group = "g" + std::to_string(below(4));
      weights_.push_back(1 + below(limit_of(options_.limits, group)));
      text_ += R"({"cmd":["job"],"group":")" + group + R"(","weight":)" +
               std::to_string(weights_.back()) + "}\n";
    }
  }

  void run_until_done() {
    folder_.write("jobs.jsonl", text_);
    for (int round = 0; round < 100 && done_.size() < static_cast<std::size_t>(job_count_);
         ++round) {
      // Sooner or later somebody lets it finish.
      run_once(/*disturbed=*/round < 6);
      if (::testing::Test::HasFailure()) return;
    }
    EXPECT_EQ(done_.size(), static_cast<std::size_t>(job_count_));
  }

 private:
  struct SendSignal final : Timer {
    explicit SendSignal(BatchRunner& what) : runner(what) {}
    void fire() override { runner.signal_received(SIGINT); }
    BatchRunner& runner;
  };

  int below(int bound) { return static_cast<int>(random_() % static_cast<unsigned>(bound)); }

  FakeProcess process(bool disturbed) {
    FakeProcess what;
    what.runs_for = Millis(below(1500));
    what.out = "x\n";
    if (!disturbed) {
      what.runs_for = Millis(below(400));
      return what;
    }
    const int kind = below(10);
    if (kind == 0) what.status = 65;
    if (kind == 1 || kind == 2) what.status = 1;
    if (kind == 3) what.signal = SIGSEGV;
    if (kind == 4) what.ignores_term = true;
    if (kind == 5) what.status_on_term = below(2);
    if (kind == 6) what = {.status = 127, .failure = "cannot run it"};
    return what;
  }

  void run_once(bool disturbed) {
    const FileDescriptor file(open(folder_.file("jobs.jsonl").c_str(), O_RDONLY));
    const FileDescriptor sink(open("/dev/null", O_WRONLY));
    auto facts = check_jobs("jobs.jsonl", file.get(), options_.limits);
    ASSERT_TRUE(facts.ok());
    auto state = RunState::open(folder_.file("state"), false);
    ASSERT_TRUE(state.ok()) << state.error().message;
    ASSERT_TRUE(state->match("jobs.jsonl", facts->fingerprints).ok());
    EXPECT_EQ(state->done(), done_.size()) << "the joblog knows what was ok";

    testing::SimScheduler sim(random_());
    FakeProcesses processes(sim, [&](const Command&) { return process(disturbed); });
    std::vector<LoggedAttempt> attempts;
    Host host;
    host.out = host.err = sink.get();
    host.seed = random_();
    host.attempt_ended = [&](const LoggedAttempt& attempt) { attempts.push_back(attempt); };
    BatchRunner runner(options_, {.descriptor = file.get(), .total = facts->jobs}, &*state, sim,
                       processes, host);
    std::vector<std::unique_ptr<SendSignal>> signals;
    for (int i = disturbed ? below(4) : 0; i > 0; --i) {
      signals.push_back(std::make_unique<SendSignal>(runner));
      sim.add_timer(*signals.back(), sim.now() + Millis(below(8000)));
    }
    const Summary summary = runner.run();
    for (auto& signal : signals) sim.cancel_timer(*signal);
    check(attempts, summary, processes);
  }

  void check(const std::vector<LoggedAttempt>& attempts, const Summary& summary,
             const FakeProcesses& processes) {
    EXPECT_EQ(processes.running(), 0);
    EXPECT_LE(processes.most_running(), options_.jobs);
    EXPECT_EQ(summary.ok + summary.failed + summary.not_run + summary.resumed_past,
              static_cast<std::uint64_t>(job_count_));
    std::set<std::uint64_t> ended;
    std::map<std::string, std::vector<std::pair<LoggedAttempt::Time, int>>> changes;
    std::map<int, std::vector<std::pair<LoggedAttempt::Time, int>>> slots;
    for (const LoggedAttempt& attempt : attempts) {
      EXPECT_EQ(done_.count(attempt.seq), 0u) << "what is done is not run again";
      EXPECT_EQ(ended.count(attempt.seq), 0u) << "nothing comes after the final try";
      if (attempt.final) ended.insert(attempt.seq);
      EXPECT_LE(attempt.queued, attempt.start);
      EXPECT_LE(attempt.start, attempt.end);
      const int weight = weights_[attempt.seq - 1];
      changes[attempt.group].insert(changes[attempt.group].end(),
                                    {{attempt.start, +weight}, {attempt.end, -weight}});
      slots[attempt.slot].insert(slots[attempt.slot].end(),
                                 {{attempt.start, +1}, {attempt.end, -1}});
    }
    EXPECT_EQ(ended.size(), summary.ok + summary.failed);
    for (auto& [group, list] : changes) {
      EXPECT_LE(most_at_once(list), limit_of(options_.limits, group)) << group;
    }
    for (auto& [slot, list] : slots) EXPECT_LE(most_at_once(list), 1) << "slot " << slot;
    for (const LoggedAttempt& attempt : attempts) {
      if (attempt.outcome == AttemptOutcome::kOk) done_.insert(attempt.seq);
    }
  }

  // An end comes before a start of the same moment.
  static int most_at_once(std::vector<std::pair<LoggedAttempt::Time, int>>& changes) {
    std::sort(changes.begin(), changes.end());
    int running = 0;
    int most = 0;
    for (const auto& [time, change] : changes) most = std::max(most, running += change);
    return most;
  }

  std::mt19937_64 random_;
  Options options_;
  int job_count_ = 0;
  std::vector<int> weights_;  // by seq - 1
  std::string text_;
  TemporaryFolder folder_;
  std::set<std::uint64_t> done_;
};

TEST(BatchSchedules, EveryJobEndsOnceWithinTheLimitsHoweverOftenTheRunIsStopped) {
  for (std::uint64_t seed = first_seed(); seed < first_seed() + seeds_to_try(); ++seed) {
    SCOPED_TRACE("KEYWAY_SEED=" + std::to_string(seed));
    Chaos(seed).run_until_done();
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace keyway::batch
