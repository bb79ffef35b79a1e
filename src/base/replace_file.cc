#include "base/replace_file.h"

#include <atomic>
#include <cerrno>
#include <cstdio>

#include <fcntl.h>
#include <unistd.h>

#include "base/file_descriptor.h"
#include "base/system_error.h"

namespace keyway {
namespace {

bool time_may_help(int number) {
  switch (number) {
    case ENOSPC:
    case EDQUOT:
    case EINTR:
    case EAGAIN:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case EIO:
      return true;
    default:
      return false;
  }
}

Error cannot_write(const std::string& path, int number) {
  Error error = system_error("cannot write " + path, number);
  error.retryable = time_may_help(number);
  if (number == ENOENT || number == ENOTDIR) error.message += "; make its folder first";
  if (number == ENOSPC) error.message += "; free some space, or name another place";
  if (number == EACCES || number == EROFS) error.message += "; name another place";
  return error;
}

// errno, or 0.
int write_all(int descriptor, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = write(descriptor, content.data(), content.size());
    if (written < 0 && errno != EINTR) return errno;
    if (written > 0) content.remove_prefix(static_cast<std::size_t>(written));
  }
  return fsync(descriptor) == 0 ? 0 : errno;
}

// As public as any other file that is made: mkostemp() would let only the owner read, and what the mask is can only be
// asked by changing it, under the eyes of other threads. errno, if it is not open.
FileDescriptor create_beside(const std::string& path, std::string& name) {
  static std::atomic<unsigned> made{0};
  constexpr int kMostTries = 1000;
  for (int i = 0; i < kMostTries; ++i) {
    name = path + "." + std::to_string(getpid()) + "." + std::to_string(++made) + ".new";
    FileDescriptor file(open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    // Somebody with the same number died, or lives in another container.
    if (file.is_open() || errno != EEXIST) return file;
  }
  return FileDescriptor();
}

}  // namespace

Result<void> replace_file(const std::string& path, std::string_view content) {
  std::string beside;
  FileDescriptor file = create_beside(path, beside);
  if (!file.is_open()) return cannot_write(path, errno);
  int failed = write_all(file.get(), content);
  file.close();
  if (failed == 0 && std::rename(beside.c_str(), path.c_str()) != 0) failed = errno;
  if (failed != 0) {
    unlink(beside.c_str());
    return cannot_write(path, failed);
  }
  // The new name is on the disk once the folder is. What cannot be done about it is not a failure:
  // the file is there.
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const FileDescriptor opened(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.is_open()) (void)fsync(opened.get());
  return {};
}

}  // namespace keyway
