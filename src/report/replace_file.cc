#include "report/replace_file.h"

#include <cerrno>
#include <cstdio>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_descriptor.h"
#include "base/system_error.h"

namespace keyway {
namespace {

Error cannot_write(const std::string& path, int number) {
  Error error = system_error("cannot write " + path, number);
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

}  // namespace

Result<void> replace_file(const std::string& path, std::string_view content) {
  std::string beside = path + ".XXXXXX";
  FileDescriptor file(mkostemp(beside.data(), O_CLOEXEC));
  if (!file.is_open()) return cannot_write(path, errno);
  int failed = write_all(file.get(), content);
  // mkostemp() lets only the owner read; a report is as public as any other file.
  const mode_t masked = umask(0);
  umask(masked);
  if (failed == 0 && fchmod(file.get(), 0666 & ~masked) != 0) failed = errno;
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
