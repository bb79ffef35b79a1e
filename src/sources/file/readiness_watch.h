// Waits, on a thread of its own, until something can be read from a pipe or a terminal: so that nobody else has to, and
// nobody has to look again and again.
//
// Thread safety: arm() from one thread. `ready` is called on the watch's thread, and no more once the watch is gone.
// Lifetime: the descriptor outlives it.
#pragma once

#include <atomic>
#include <functional>
#include <semaphore>
#include <thread>

#include "base/file_descriptor.h"
#include "keyway/error.h"

namespace keyway {

class ReadinessWatch {
 public:
  ReadinessWatch(int descriptor, std::function<void()> ready);
  ~ReadinessWatch();
  ReadinessWatch(const ReadinessWatch&) = delete;
  ReadinessWatch& operator=(const ReadinessWatch&) = delete;

  // Calls `ready` once, as soon as there is something to read, or the end.
  void arm();

  // What a watch waits for is there: a read does not block.
  static bool is_ready(int descriptor);

 private:
  void watch();

  const int descriptor_;
  const std::function<void()> ready_;
  const FileDescriptor stop_event_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> armed_{false};
  std::counting_semaphore<> wanted_{0};
  std::thread thread_;
};

}  // namespace keyway
