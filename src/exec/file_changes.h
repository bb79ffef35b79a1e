// Waits until somebody writes into a file or closes it.
//
// That a process died shows as well: its descriptors are closed. The kernel tells of that a moment
// before it drops the locks of a description, so a wait that brought no news of interest is
// followed by a short one, then by longer ones up to a second. Where the system has no watch to give,
// every 50 ms must do.
//
// Thread safety: one thread.
#pragma once

#include <chrono>
#include <string>

#include "base/file_descriptor.h"

namespace keyway::exec {

class FileChanges {
 public:
  explicit FileChanges(const std::string& path);

  // 0: look again. Else errno: EINTR.
  int wait();

 private:
  FileDescriptor watch_;  // not open: there is none
  std::chrono::milliseconds pause_{1};
};

}  // namespace keyway::exec
