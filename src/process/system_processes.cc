#include "process/system_processes.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <string_view>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/system_error.h"
#include "process/child.h"

namespace keyway {

namespace {

std::string_view name_of(std::string_view entry) { return entry.substr(0, entry.find('=')); }

FileDescriptor open_null() {
  // A descriptor below 3 that is closed would be taken by the next pipe, and be overwritten in the
  // child.
  int descriptor = -1;
  do {
    descriptor = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (descriptor < 0) throw Exception(system_error("cannot open /dev/null", errno));
  } while (descriptor <= 2);
  return FileDescriptor(descriptor);
}

}  // namespace

class SystemProcesses::SystemProcess final : public Process, private Timer, private Watcher {
 public:
  SystemProcess(SystemProcesses& owner, ProcessEvents& events) : owner_(owner), events_(events) {}
  ~SystemProcess() override;

  void start(const Command& command);

  int pid() const override { return child_.pid > 0 ? child_.pid : 0; }
  void send_signal(int signal) override {
    if (running_) ::kill(-child_.pid, signal);
  }
  void kill_group_at_exit() override { kills_group_ = true; }
  void pause_output() override;
  void resume_output() override;
  void write_input(std::string_view text) override;
  void close_input() override;

 private:
  // Its stdin: what finds no room in the pipe waits here.
  struct Input final : Watcher {
    explicit Input(SystemProcess& owner) : process(owner) {}
    void ready(std::uint32_t) override { process.write_waiting_input(); }

    SystemProcess& process;
    FileDescriptor end;
    bool watched = false;
    bool closes = false;  // when nothing waits any more
    std::string waiting;
    std::size_t written = 0;  // of what waits
  };
  // One of the two pipes it writes to.
  struct Pipe final : Watcher {
    Pipe(SystemProcess& owner, Stream of) : process(owner), stream(of) {}
    void ready(std::uint32_t) override { process.read_some(*this); }

    SystemProcess& process;
    const Stream stream;
    FileDescriptor end;
    bool watched = false;
  };

  void ready(std::uint32_t events) override;
  void fire() override;
  void fail(SpawnFailure failure);
  bool read_some(Pipe& pipe);
  void watch(Pipe& pipe);
  void close(Pipe& pipe);
  std::size_t write_some(std::string_view text);
  void write_waiting_input();
  void drop_input();
  void reap(ProcessExit& exit);

  SystemProcesses& owner_;
  ProcessEvents& events_;
  Guardian::Entry entry_;
  Child child_;
  Input input_{*this};
  std::array<Pipe, 2> pipes_{Pipe(*this, Stream::kOut), Pipe(*this, Stream::kErr)};
  bool running_ = false;
  bool kills_group_ = false;
  ProcessExit exit_;
};

std::vector<SystemProcesses::Variable> SystemProcesses::own_environment() {
  std::vector<Variable> own;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    own.push_back({*entry, name_of(*entry).size()});
  }
  return own;
}

SystemProcesses::SystemProcesses(EventLoop& loop, std::size_t most)
    : loop_(loop), null_(open_null()), guardian_(most), environment_(own_environment()) {
  struct sigaction ignore{};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &pipe_signal_before_);
}

SystemProcesses::~SystemProcesses() { sigaction(SIGPIPE, &pipe_signal_before_, nullptr); }

std::unique_ptr<Process> SystemProcesses::start(const Command& command, ProcessEvents& events) {
  auto process = std::make_unique<SystemProcess>(*this, events);
  process->start(command);
  return process;
}

std::vector<const char*> SystemProcesses::environment_for(const Command& command) const {
  std::vector<const char*> entries;
  entries.reserve(command.environment.size() + environment_.size());
  std::vector<std::string_view> names;
  names.reserve(command.environment.size());
  for (const std::string& entry : command.environment) {
    entries.push_back(entry.c_str());
    names.push_back(name_of(entry));
  }
  for (const Variable& own : environment_) {
    const bool replaced = std::find(names.begin(), names.end(), own.name()) != names.end();
    if (!replaced) entries.push_back(own.entry.c_str());
  }
  return entries;
}

void SystemProcesses::SystemProcess::start(const Command& command) {
  const std::vector<const char*> environment = owner_.environment_for(command);
  const auto no_pipe = [&](int number) {
    fail({125, "cannot make a pipe for \"" + command.argv.front() + "\": " + errno_text(number),
          number});
  };
  FileDescriptor child_input;
  std::array<FileDescriptor, 2> child_ends;
  if (command.takes_input) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return no_pipe(errno);
    child_input = FileDescriptor(ends[0]);
    input_.end = FileDescriptor(ends[1]);
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
  }
  for (std::size_t i = 0; command.captures_output && i < pipes_.size(); ++i) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return no_pipe(errno);
    pipes_[i].end = FileDescriptor(ends[0]);
    child_ends[i] = FileDescriptor(ends[1]);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
  }
  const int null = owner_.null_.get();
  entry_ = owner_.guardian_.enter();
  Spawned spawned = spawn_child({
      .argv = command.argv,
      .environment = environment,
      .directory = command.directory.empty() ? nullptr : command.directory.c_str(),
      .input = command.takes_input ? child_input.get() : null,
      .output = command.captures_output ? child_ends[0].get() : null,
      .error = command.captures_output ? child_ends[1].get() : null,
      .group_record = entry_.record(),
  });
  if (!spawned.ok()) {
    fail(std::move(spawned.failure));
    return;
  }
  child_ = std::move(spawned.child);
  running_ = true;
  const Result<void> watched = owner_.loop_.watch(child_.pidfd.get(), *this, EPOLLIN);
  KEYWAY_CHECK(watched.ok(), "a process cannot be waited for");
  if (command.captures_output) {
    for (Pipe& pipe : pipes_) watch(pipe);
  }
}

SystemProcesses::SystemProcess::~SystemProcess() {
  owner_.loop_.cancel_timer(*this);
  drop_input();
  for (Pipe& pipe : pipes_) close(pipe);
  if (!running_) return;
  owner_.loop_.unwatch(child_.pidfd.get(), *this);
  kills_group_ = true;
  send_signal(SIGKILL);
  ProcessExit unused;
  reap(unused);
}

void SystemProcesses::SystemProcess::fail(SpawnFailure failure) {
  entry_ = {};
  input_.end.close();
  for (Pipe& pipe : pipes_) pipe.end.close();
  exit_ = {failure.status, 0, std::move(failure.message), failure.error};
  // Not from within start(); and who gives up on it before that can take it back.
  owner_.loop_.add_timer(*this, owner_.loop_.now());
}

void SystemProcesses::SystemProcess::fire() { events_.exited(std::move(exit_)); }

void SystemProcesses::SystemProcess::watch(Pipe& pipe) {
  const Result<void> watched = owner_.loop_.watch(pipe.end.get(), pipe, EPOLLIN);
  KEYWAY_CHECK(watched.ok(), "a pipe cannot be waited for");
  pipe.watched = true;
}

void SystemProcesses::SystemProcess::close(Pipe& pipe) {
  if (std::exchange(pipe.watched, false)) owner_.loop_.unwatch(pipe.end.get(), pipe);
  pipe.end.close();
}

// True if there may be more.
bool SystemProcesses::SystemProcess::read_some(Pipe& pipe) {
  const ssize_t got = read(pipe.end.get(), owner_.read_buffer_.get(), kReadBytes);
  if (got > 0) {
    events_.output(pipe.stream, {owner_.read_buffer_.get(), static_cast<std::size_t>(got)});
    return true;
  }
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return errno == EINTR;
  close(pipe);  // nobody has the other end any more
  return false;
}

void SystemProcesses::SystemProcess::pause_output() {
  for (Pipe& pipe : pipes_) {
    if (std::exchange(pipe.watched, false)) owner_.loop_.unwatch(pipe.end.get(), pipe);
  }
}

void SystemProcesses::SystemProcess::resume_output() {
  for (Pipe& pipe : pipes_) {
    if (pipe.end.is_open() && !pipe.watched) watch(pipe);
  }
}

void SystemProcesses::SystemProcess::write_input(std::string_view text) {
  if (!input_.end.is_open()) return;
  KEYWAY_CHECK(!input_.closes, "input was written to a process after its end");
  if (input_.waiting.empty()) text.remove_prefix(write_some(text));
  if (text.empty() || !input_.end.is_open()) return;
  input_.waiting.append(text);
  if (input_.watched) return;
  const Result<void> watched = owner_.loop_.watch(input_.end.get(), input_, EPOLLOUT);
  KEYWAY_CHECK(watched.ok(), "a pipe cannot be waited for");
  input_.watched = true;
}

void SystemProcesses::SystemProcess::close_input() {
  input_.closes = true;
  if (input_.waiting.empty()) drop_input();
}

// How much of it the pipe took. One that nobody reads any more is closed.
std::size_t SystemProcesses::SystemProcess::write_some(std::string_view text) {
  if (text.empty()) return 0;
  // Once: a pipe that took less is full, and a quick reader must not keep the loop here.
  const ssize_t put = write(input_.end.get(), text.data(), text.size());
  if (put >= 0) return static_cast<std::size_t>(put);
  if (errno != EAGAIN && errno != EINTR) drop_input();
  return 0;
}

void SystemProcesses::SystemProcess::write_waiting_input() {
  constexpr std::size_t kWorthMoving = 1 << 20;
  const std::size_t put = write_some(std::string_view(input_.waiting).substr(input_.written));
  if (!input_.end.is_open()) return;
  input_.written += put;
  if (input_.written < input_.waiting.size()) {
    // It need not become empty ever.
    if (input_.written > kWorthMoving && input_.written > input_.waiting.size() / 2) {
      input_.waiting.erase(0, input_.written);
      input_.written = 0;
    }
    return;
  }
  owner_.loop_.unwatch(input_.end.get(), input_);
  input_.watched = false;
  input_.written = 0;
  input_.waiting = {};  // the memory too: there may have been much of it
  if (input_.closes) drop_input();
}

void SystemProcesses::SystemProcess::drop_input() {
  if (std::exchange(input_.watched, false)) owner_.loop_.unwatch(input_.end.get(), input_);
  input_.end.close();
  input_.waiting = {};
  input_.written = 0;
}

// It has ended.
void SystemProcesses::SystemProcess::ready(std::uint32_t) {
  // A process left behind may go on writing, for ever: no more than a pipe holds is from before the
  // exit.
  constexpr std::size_t kMostReads = 1 << 20 >> 16;
  for (Pipe& pipe : pipes_) {
    for (std::size_t i = 0; pipe.end.is_open() && i < kMostReads && read_some(pipe); ++i) {
    }
    close(pipe);
  }
  drop_input();
  owner_.loop_.unwatch(child_.pidfd.get(), *this);
  ProcessExit exit;
  reap(exit);
  events_.exited(std::move(exit));  // may destroy this
}

void SystemProcesses::SystemProcess::reap(ProcessExit& exit) {
  // Before it is reaped: as long as it is not, nobody else can have its group's number.
  if (kills_group_) ::kill(-child_.pid, SIGKILL);
  siginfo_t info{};
  int failed = 0;
  do {
    failed = waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(child_.pidfd.get()), &info,
                    WEXITED);
  } while (failed != 0 && errno == EINTR);
  KEYWAY_CHECK(failed == 0, "somebody else has reaped a process");
  running_ = false;
  entry_ = {};
  child_.pidfd.close();
  if (info.si_code == CLD_EXITED) {
    exit.status = info.si_status;
  } else {
    exit.signal = info.si_status;
  }
}

}  // namespace keyway
