#include "process/fake_processes.h"

#include <algorithm>
#include <csignal>

namespace keyway {

class FakeProcesses::Pretended final : public Process, public FakeStdio, private Timer {
 public:
  Pretended(FakeProcesses& owner, FakeProcess what, ProcessEvents& events, int number)
      : owner_(owner), what_(std::move(what)), events_(events), number_(number) {
    const bool starts = what_.failure.empty();
    if (!starts) what_.runs_for = Duration::zero();
    ++owner_.running_;
    owner_.most_running_ = std::max(owner_.most_running_, owner_.running_);
    exits_at_ = owner_.scheduler_.now() + what_.runs_for;
    set_timer();
  }
  ~Pretended() override {
    if (!running_) return;
    owner_.scheduler_.cancel_timer(*this);
    --owner_.running_;
  }

  int pid() const override { return what_.failure.empty() ? 1000 + number_ : 0; }
  void send_signal(int signal) override {
    if (!running_) return;
    owner_.signals_.push_back({1000 + number_, signal});
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
  void write_input(std::string_view text) override {
    if (!running_) return;
    KEYWAY_CHECK(!input_closed_, "input was written to a process after its end");
    owner_.inputs_[static_cast<std::size_t>(number_ - 1)] += text;
    if (what_.on_input && !text.empty()) what_.on_input(*this, text);
  }
  void close_input() override {
    if (!running_ || std::exchange(input_closed_, true)) return;
    if (what_.on_input) what_.on_input(*this, {});
  }

  void write(Stream stream, std::string text, Duration after) override {
    said_.emplace(owner_.scheduler_.now() + after, Said{stream, std::move(text)});
    set_timer();
  }
  void exit(int status, Duration after) override {
    what_.status = status;
    exits_at_ = owner_.scheduler_.now() + after;
    set_timer();
  }

 private:
  struct Said {
    Stream stream;
    std::string text;
  };

  void end_now() {
    said_.clear();
    exits_at_ = owner_.scheduler_.now();
    set_timer();
  }
  void set_timer() {
    owner_.scheduler_.cancel_timer(*this);
    const bool speaks_first = !said_.empty() && said_.begin()->first <= exits_at_;
    owner_.scheduler_.add_timer(*this, speaks_first ? said_.begin()->first : exits_at_);
  }
  void fire() override {
    if (!said_.empty() && said_.begin()->first <= exits_at_) {
      const Said said = std::move(said_.extract(said_.begin()).mapped());
      set_timer();
      events_.output(said.stream, said.text);
      return;
    }
    running_ = false;
    --owner_.running_;
    if (!what_.out.empty()) events_.output(Stream::kOut, what_.out);
    if (!what_.err.empty()) events_.output(Stream::kErr, what_.err);
    events_.exited({what_.status, what_.signal, what_.failure, what_.error});
  }

  FakeProcesses& owner_;
  FakeProcess what_;
  ProcessEvents& events_;
  const int number_;
  bool running_ = true;
  bool input_closed_ = false;
  TimePoint exits_at_;
  std::multimap<TimePoint, Said> said_;
};

std::unique_ptr<Process> FakeProcesses::start(const Command& command, ProcessEvents& events) {
  ++started_;
  inputs_.emplace_back();
  return std::make_unique<Pretended>(*this, script_(command), events, started_);
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
