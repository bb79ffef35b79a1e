// A program that a test has started: its output goes to a file, and it ends with the test.
#pragma once

#include <csignal>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace keyway {

class StartedProgram {
 public:
  // Output and errors are appended to the file.
  StartedProgram(std::vector<std::string> argv, const std::string& output) {
    std::vector<char*> words;
    for (std::string& word : argv) words.push_back(word.data());
    words.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, output.c_str(), O_WRONLY | O_APPEND | O_CREAT,
                                     0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    if (posix_spawnp(&pid_, words[0], &actions, nullptr, words.data(), environ) != 0) std::abort();
    posix_spawn_file_actions_destroy(&actions);
  }
  StartedProgram(StartedProgram&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  StartedProgram& operator=(StartedProgram&&) = delete;
  ~StartedProgram() {
    if (pid_ <= 0) return;
    send_signal(SIGKILL);
    wait();
  }

  pid_t pid() const { return pid_; }
  // Nothing happens if it was waited for already.
  void send_signal(int number) const {
    if (pid_ > 0) kill(pid_, number);
  }
  // The exit status; minus the signal that ended it.
  int wait() {
    int state = 0;
    waitpid(std::exchange(pid_, -1), &state, 0);
    return WIFSIGNALED(state) ? -WTERMSIG(state) : WEXITSTATUS(state);
  }

 private:
  pid_t pid_ = -1;
};

}  // namespace keyway
