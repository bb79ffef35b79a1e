#include "jobs/state_folder.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/system_error.h"

namespace keyway::jobs {

Result<StateFolder> StateFolder::take(const std::string& folder) {
  if (mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST) {
    Error error = system_error("cannot make the state folder " + folder, errno);
    error.message += "\n  try: --state DIR";
    return error;
  }
  const std::string path = folder + "/lock";
  FileDescriptor lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!lock.is_open()) return system_error("cannot open " + path, errno);
  // A lock of the process: flock() would also be held by a child that has not come to its exec yet, and
  // for a moment outlive a run that was killed.
  struct flock whole_file{};
  whole_file.l_type = F_WRLCK;
  whole_file.l_whence = SEEK_SET;
  if (fcntl(lock.get(), F_SETLK, &whole_file) != 0) {
    if (errno != EAGAIN && errno != EACCES) return system_error("cannot lock " + path, errno);
    fcntl(lock.get(), F_GETLK, &whole_file);
    return Error{ErrorCode::kConflict,
                 folder + " is in use by another run, pid " + std::to_string(whole_file.l_pid) +
                     "\n  try: wait until it ends, or --state DIR for a run of its own",
                 /*retryable=*/true};
  }
  const std::string pid = std::to_string(getpid()) + "\n";
  if (ftruncate(lock.get(), 0) != 0) return system_error("cannot write " + path, errno);
  const ssize_t written = write(lock.get(), pid.data(), pid.size());
  if (written != static_cast<ssize_t>(pid.size())) {
    return system_error("cannot write " + path, written < 0 ? errno : ENOSPC);
  }
  return StateFolder(folder, std::move(lock));
}

}  // namespace keyway::jobs
