// For tests: a state folder that another process holds, until the end of the scope or release().
#pragma once

#include <cstdlib>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

#include "jobs/state_folder.h"

namespace keyway::jobs {

class HeldFolder {
 public:
  explicit HeldFolder(const std::string& folder) {
    int taken[2] = {};
    int end[2] = {};
    if (pipe(taken) != 0 || pipe(end) != 0) std::abort();
    child_ = fork();
    if (child_ < 0) std::abort();
    char byte = 0;
    if (child_ == 0) {
      close(end[1]);
      const auto lock = StateFolder::take(folder);
      byte = lock ? 'y' : 'n';
      (void)!write(taken[1], &byte, 1);
      (void)!read(end[0], &byte, 1);
      _exit(0);
    }
    close(end[0]);
    close(taken[1]);
    is_held_ = read(taken[0], &byte, 1) == 1 && byte == 'y';
    close(taken[0]);
    end_ = end[1];
  }
  ~HeldFolder() { release(); }
  HeldFolder(const HeldFolder&) = delete;
  HeldFolder& operator=(const HeldFolder&) = delete;

  bool is_held() const { return is_held_; }
  void release() {
    if (child_ <= 0) return;
    close(end_);
    waitpid(child_, nullptr, 0);
    child_ = 0;
  }

 private:
  pid_t child_ = 0;
  int end_ = -1;
  bool is_held_ = false;
};

}  // namespace keyway::jobs
