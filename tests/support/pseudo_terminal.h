// A program on a terminal of its own, as a test sees it: what it writes, and how it ends.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace keyway {

class PseudoTerminal {
 public:
  PseudoTerminal(std::vector<std::string> argv, int columns,
                 const std::map<std::string, std::string>& environment = {}) {
    winsize size{.ws_row = 24, .ws_col = static_cast<unsigned short>(columns)};
    std::vector<char*> words;
    for (std::string& word : argv) words.push_back(word.data());
    words.push_back(nullptr);
    pid_ = ::forkpty(&terminal_, nullptr, nullptr, &size);
    if (pid_ < 0) std::abort();
    if (pid_ > 0) return;
    ::setenv("TERM", "xterm", 1);
    for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
    ::execv(words.front(), words.data());
    ::_exit(127);
  }
  ~PseudoTerminal() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    ::close(terminal_);
  }
  PseudoTerminal(const PseudoTerminal&) = delete;
  PseudoTerminal& operator=(const PseudoTerminal&) = delete;

  // Everything it has written until now.
  const std::string& output() const { return output_; }

  // Reads until `text` has come, from `begin` of the output on; false after 20 seconds, or at the end.
  bool wait_for(const std::string& text, std::size_t begin = 0) {
    while (output_.find(text, begin) == std::string::npos) {
      if (!read_some()) return false;
    }
    return true;
  }

  void type(const std::string& text) {
    if (::write(terminal_, text.data(), text.size()) < 0) std::abort();
  }

  void resize(int columns) {
    const winsize size{.ws_row = 24, .ws_col = static_cast<unsigned short>(columns)};
    ::ioctl(terminal_, TIOCSWINSZ, &size);
  }

  // Reads all there is, and returns the exit status; -1 if a signal ended it.
  int wait_for_exit() {
    while (read_some()) {
    }
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  bool read_some() {
    pollfd ready{.fd = terminal_, .events = POLLIN, .revents = 0};
    constexpr int kMostMilliseconds = 20'000;
    if (::poll(&ready, 1, kMostMilliseconds) <= 0) return false;
    char buffer[4096];
    const ssize_t got = ::read(terminal_, buffer, sizeof buffer);
    // The end of a terminal is an error (EIO) on Linux.
    if (got <= 0) return false;
    output_.append(buffer, static_cast<std::size_t>(got));
    return true;
  }

  int terminal_ = -1;
  pid_t pid_ = -1;
  std::string output_;
};

}  // namespace keyway
