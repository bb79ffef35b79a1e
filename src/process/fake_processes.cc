#include "process/fake_processes.h"

#include <algorithm>
#include <csignal>

namespace keyway {

class FakeProcesses::Pretended final : public Process, private Timer {
 public:
  Pretended(FakeProcesses& owner, FakeProcess what, ProcessEvents& events, int pid)
      : owner_(owner), what_(std::move(what)), events_(events), pid_(pid) {
    const bool starts = what_.failure.empty();
    if (!starts) what_.runs_for = Duration::zero();
    ++owner_.running_;
    owner_.most_running_ = std::max(owner_.most_running_, owner_.running_);
    owner_.scheduler_.add_timer(*this, owner_.scheduler_.now() + what_.runs_for);
  }
  ~Pretended() override {
    if (!running_) return;
    owner_.scheduler_.cancel_timer(*this);
    --owner_.running_;
  }

  int pid() const override { return what_.failure.empty() ? pid_ : 0; }
  void send_signal(int signal) override {
    if (!running_) return;
    owner_.signals_.push_back({pid_, signal});
    if (signal == SIGTERM && !what_.ignores_term) {
      what_.signal = what_.status_on_term ? 0 : SIGTERM;
      what_.status = what_.status_on_term.value_or(0);
      end_now();
    } else if (signal == SIGKILL) {
      what_.signal = SIGKILL;
      end_now();
    }
  }
  void kill_group_at_exit() override {}
  void pause_output() override {}
  void resume_output() override {}

 private:
  void end_now() {
    owner_.scheduler_.cancel_timer(*this);
    owner_.scheduler_.add_timer(*this, owner_.scheduler_.now());
  }
  void fire() override {
    running_ = false;
    --owner_.running_;
    if (!what_.out.empty()) events_.output(Stream::kOut, what_.out);
    if (!what_.err.empty()) events_.output(Stream::kErr, what_.err);
    events_.exited({.status = what_.status, .signal = what_.signal, .failure = what_.failure});
  }

  FakeProcesses& owner_;
  FakeProcess what_;
  ProcessEvents& events_;
  const int pid_;
  bool running_ = true;
};

std::unique_ptr<Process> FakeProcesses::start(const Command& command, ProcessEvents& events) {
  ++started_;
  return std::make_unique<Pretended>(*this, script_(command), events, 1000 + started_);
}

std::string variable_of(const Command& command, std::string_view name) {
  for (const std::string& entry : command.environment) {
    if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=') {
      return entry.substr(name.size() + 1);
    }
  }
  return {};
}

}  // namespace keyway
