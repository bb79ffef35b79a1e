// Counts tasks that run, and expects that there are never more than a limit.
#pragma once

#include <atomic>

#include <gtest/gtest.h>

#include "keyway/group_result.h"
#include "keyway/task_handle.h"

namespace keyway {

// A task that waits for another is not running: it calls join() here, or leave() and enter() around its wait.
class Running {
 public:
  explicit Running(int limit) : limit_(limit) {}
  void enter() { EXPECT_LE(++inside_, limit_); }
  void leave() { --inside_; }
  template <class T>
  GroupResult<T> join(TaskHandle<T>& handle) {
    leave();
    GroupResult<T> result = handle.join();
    enter();
    return result;
  }

 private:
  const int limit_;
  std::atomic<int> inside_ = 0;
};

}  // namespace keyway
