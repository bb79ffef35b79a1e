// The folder in which a run keeps what a later one goes on from. While this object is there, no
// other run has it.
//
//   lock   a lock of the process that runs; has its process id in it
//
// Thread safety: as std::string.
#pragma once

#include <string>
#include <utility>

#include "base/file_descriptor.h"
#include "keyway/error.h"

namespace keyway::jobs {

class StateFolder {
 public:
  // Makes it if there is none. kConflict: another run has it.
  static Result<StateFolder> take(const std::string& path);

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  StateFolder(std::string path, FileDescriptor lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}

  std::string path_;
  FileDescriptor lock_;
};

}  // namespace keyway::jobs
