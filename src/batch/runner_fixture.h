// A batch with pretended processes in virtual time, for tests.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <fcntl.h>

#include <gtest/gtest.h>

#include "base/file_descriptor.h"
#include "batch/batch.h"
#include "batch/batch_runner.h"
#include "batch/run_state.h"
#include "keyway/testing/sim_scheduler.h"
#include "process/fake_processes.h"
#include "support/temporary_folder.h"

namespace keyway::batch {

using namespace std::chrono_literals;

class RunnerTest : public ::testing::Test {
 protected:
  // What a command of this name does, try by try; the last one again and again. One that is not
  // there exits 0 after a millisecond.
  std::map<std::string, std::vector<FakeProcess>> does_;
  Options options_ = standard_options();

  static Options standard_options() {
    Options options;
    options.jobs_file = "jobs.jsonl";
    options.jobs = 4;
    options.limits.standard.limit = 4;
    return options;
  }

  // One job for each word, with the word as id and command, and the group if it is "group/word".
  static std::string jobs(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) {
      const std::size_t slash = word.find('/');
      const std::string group = slash == std::string::npos ? "default" : word.substr(0, slash);
      const std::string name = slash == std::string::npos ? word : word.substr(slash + 1);
      text += R"({"id":")" + name + R"(","group":")" + group + R"(","cmd":[")" + name + "\"]}\n";
    }
    return text;
  }
  static std::string numbered_jobs(int count) {
    std::string text;
    for (int i = 1; i <= count; ++i) text += R"({"cmd":["job)" + std::to_string(i) + "\"]}\n";
    return text;
  }

  // At a time of the run.
  void at(Duration time, std::function<void(BatchRunner&)> then) {
    events_.push_back({time, std::move(then)});
  }

  Summary run(const std::string& text, bool with_state = true) {
    const FileDescriptor file(open(folder_.write("jobs.jsonl", text).c_str(), O_RDONLY));
    auto facts = check_jobs("jobs.jsonl", file.get(), options_.limits);
    if (!facts) {
      ADD_FAILURE() << facts.error().message;
      return {};
    }
    std::optional<RunState> state;
    if (with_state) {
      auto opened = RunState::open(folder_.file("state"), options_.fresh);
      if (!opened) {
        ADD_FAILURE() << opened.error().message;
        return {};
      }
      state = std::move(*opened);
      EXPECT_TRUE(state->match("jobs.jsonl", facts->fingerprints).ok());
    }
    return run({.descriptor = file.get(), .total = facts->jobs}, state ? &*state : nullptr);
  }

  Summary run(Input input, RunState* state) {
    const FileDescriptor out(open(folder_.file("out").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600));
    const FileDescriptor err(open(folder_.file("err").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600));
    tries_.clear();
    attempts_.clear();
    notices_.clear();
    testing::SimScheduler sim;
    FakeProcesses processes(sim, [this](const Command& command) { return script(command); });
    Host host;
    host.out = out.get();
    host.err = err.get();
    host.seed = 1;
    host.notice = [this](std::string_view notice) { notices_ += std::string(notice) + "\n"; };
    host.attempt_ended = [this](const LoggedAttempt& attempt) { attempts_.push_back(attempt); };
    BatchRunner runner(options_, input, state, sim, processes, host);
    std::vector<std::unique_ptr<Event>> timers;
    for (const auto& [time, then] : std::exchange(events_, {})) {
      timers.push_back(std::make_unique<Event>(runner, then));
      sim.add_timer(*timers.back(), sim.now() + time);
    }
    const Summary summary = runner.run();
    for (auto& timer : timers) sim.cancel_timer(*timer);
    most_running_ = processes.most_running();
    started_ = processes.started();
    signals_ = processes.signals();
    EXPECT_EQ(processes.running(), 0);
    return summary;
  }

  std::string out() const { return folder_.read("out"); }
  std::string err() const { return folder_.read("err"); }
  // "id outcome", as they ended.
  std::vector<std::string> ends() const {
    std::vector<std::string> ends;
    for (const LoggedAttempt& attempt : attempts_) {
      ends.push_back(attempt.id + " " + outcome_name(attempt.outcome) +
                     (attempt.final ? "" : "..."));
    }
    return ends;
  }
  static std::string outcome_name(AttemptOutcome outcome) { return jobs::to_string(outcome); }
  const LoggedAttempt& attempt(const std::string& id, int number = 1) const {
    for (const LoggedAttempt& attempt : attempts_) {
      if (attempt.id == id && attempt.attempt == number) return attempt;
    }
    ADD_FAILURE() << "no try " << number << " of " << id;
    std::abort();
  }

  TemporaryFolder folder_;
  std::vector<Command> commands_;
  std::vector<LoggedAttempt> attempts_;
  std::string notices_;
  int most_running_ = 0;
  int started_ = 0;
  std::vector<FakeProcesses::Sent> signals_;

 private:
  struct Event final : Timer {
    Event(BatchRunner& what, std::function<void(BatchRunner&)> then)
        : runner(what), work(std::move(then)) {}
    void fire() override { work(runner); }
    BatchRunner& runner;
    std::function<void(BatchRunner&)> work;
  };

  FakeProcess script(const Command& command) {
    commands_.push_back(command);
    const std::string& name = command.argv.front();
    const std::size_t number = tries_[name]++;
    const auto found = does_.find(name);
    if (found == does_.end()) return {};
    return found->second[std::min(number, found->second.size() - 1)];
  }

  std::map<std::string, std::size_t> tries_;
  std::vector<std::pair<Duration, std::function<void(BatchRunner&)>>> events_;
};

}  // namespace keyway::batch
