#include "process/captured_output.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

#include "base/system_error.h"

namespace keyway {

namespace {

std::string temporary_folder() {
  const char* folder = std::getenv("TMPDIR");
  return folder != nullptr && *folder != '\0' ? folder : "/tmp";
}

}  // namespace

FileDescriptor open_nameless_file() {
  const std::string folder = temporary_folder();
  FileDescriptor file(open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file.is_open() || (errno != EOPNOTSUPP && errno != EISDIR)) return file;
  // A file system that knows no nameless files: one that loses its name at once.
  std::string name = folder + "/keyway-XXXXXX";
  file = FileDescriptor(mkostemp(name.data(), O_CLOEXEC));
  if (file.is_open()) unlink(name.c_str());
  return file;
}

void CapturedOutput::append(std::string_view text) {
  const std::size_t fits =
      file_bytes_ == 0 && missing_bytes_ == 0
          ? std::min(text.size(), memory_bytes_ - std::min(memory_bytes_, memory_.size()))
          : 0;
  memory_.append(text.substr(0, fits));
  if (fits < text.size()) append_to_file(text.substr(fits));
}

void CapturedOutput::append_to_file(std::string_view text) {
  // Once something is missing, what comes later would stand in the wrong place.
  if (missing_bytes_ > 0) return lose(text.size(), why_missing_);
  if (!file_.is_open()) file_ = open_nameless_file();
  if (!file_.is_open()) return lose(text.size(), errno);
  while (!text.empty()) {
    const ssize_t written =
        pwrite(file_.get(), text.data(), text.size(), static_cast<off_t>(file_bytes_));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return lose(text.size(), written == 0 ? ENOSPC : errno);
    file_bytes_ += static_cast<std::uint64_t>(written);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void CapturedOutput::lose(std::size_t bytes, int why) {
  missing_bytes_ += bytes;
  why_missing_ = why;
}

void CapturedOutput::finish() {
  if (missing_bytes_ == 0) return;
  note_ = "\nkeyway: " + std::to_string(missing_bytes_) +
          " bytes of output are missing here: no room in " + temporary_folder() + ": " +
          errno_text(why_missing_) + "; set TMPDIR to a larger place\n";
}

std::string_view CapturedOutput::read(std::uint64_t offset, std::span<char> buffer) const {
  std::size_t filled = 0;
  const auto copy = [&](const std::string& part, std::uint64_t at) {
    const std::uint64_t begin = offset + filled - at;
    const std::size_t count = std::min(buffer.size() - filled, part.size() - begin);
    std::memcpy(buffer.data() + filled, part.data() + begin, count);
    filled += count;
  };
  const std::uint64_t file_end = memory_.size() + file_bytes_;
  if (offset < memory_.size()) copy(memory_, 0);
  while (filled < buffer.size() && offset + filled < file_end) {
    const std::uint64_t left = file_end - offset - filled;
    const ssize_t got = pread(file_.get(), buffer.data() + filled,
                              std::min<std::uint64_t>(buffer.size() - filled, left),
                              static_cast<off_t>(offset + filled - memory_.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return {buffer.data(), filled};
    filled += static_cast<std::size_t>(got);
  }
  const std::uint64_t reached = offset + filled;
  if (reached >= file_end && reached < size()) copy(note_, file_end);
  return {buffer.data(), filled};
}

}  // namespace keyway
