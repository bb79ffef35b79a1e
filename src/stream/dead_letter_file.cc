#include "keyway/dead_letter_file.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_descriptor.h"
#include "base/group_commit.h"
#include "base/system_error.h"
#include "stream/dead_letter_text.h"

namespace keyway {
namespace {

class DeadLetterFile final : public DeadLetters {
 public:
  explicit DeadLetterFile(std::string path)
      : path_(std::move(path)),
        commits_([this](std::vector<std::string>& lines) { return append(lines); }) {}

  Result<void> store(const DeadLetter& letter) override {
    std::string line;
    append_dead_letter(line, letter);
    return commits_.add(std::move(line));
  }

 private:
  // By one thread at a time: see GroupCommit.
  Result<void> append(const std::vector<std::string>& lines) {
    if (const Result<void> opened = open_locked(); !opened) return opened;
    const Result<void> written = append_locked(lines);
    if (file_.is_open()) flock(file_.get(), LOCK_UN);
    return written;
  }

  // Tools replace the file by one without some of its letters; the lock keeps them from missing one that comes just
  // then. Who removes the file does not mean the letters that come either.
  Result<void> open_locked() {
    for (;; file_.close()) {
      const bool is_new = !file_.is_open();
      if (is_new) {
        if (const Result<void> opened = open(); !opened) return opened;
      }
      while (flock(file_.get(), LOCK_EX) != 0) {
        if (errno != EINTR) return system_error("cannot lock " + path_, errno);
      }
      struct stat status{};
      if (fstat(file_.get(), &status) != 0) return system_error("cannot read " + path_, errno);
      size_ = status.st_size;
      if (status.st_nlink == 0) continue;
      if (!is_new) return {};
      Result<void> repaired = repair();
      if (!repaired) file_.close();
      return repaired;
    }
  }

  Result<void> append_locked(const std::vector<std::string>& lines) {
    std::string joined;
    if (lines.size() > 1) {
      for (const std::string& line : lines) joined += line;
    }
    const int failed = write_all(lines.size() == 1 ? lines.front() : joined);
    if (failed == 0) return {};
    // A half of a line must not be in front of the next letter. If even this fails, the next one begins with repair.
    if (ftruncate(file_.get(), size_) != 0) file_.close();
    Error error = system_error("cannot write dead letters to " + path_, failed);
    if (failed == ENOSPC || failed == EDQUOT || failed == EFBIG) {
      error.message += "\n  try: free some space, and start again";
    }
    return error;
  }

  // errno, or 0.
  int write_all(std::string_view text) {
    while (!text.empty()) {
      const ssize_t written = write(file_.get(), text.data(), text.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return written < 0 ? errno : ENOSPC;
      text.remove_prefix(static_cast<std::size_t>(written));
    }
    return fdatasync(file_.get()) == 0 ? 0 : errno;
  }

  Result<void> open() {
    FileDescriptor file(::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    if (!file.is_open()) return system_error("cannot open " + path_, errno);
    struct stat status{};
    if (fstat(file.get(), &status) != 0) return system_error("cannot read " + path_, errno);
    if (!S_ISREG(status.st_mode)) {
      return Error{ErrorCode::kInvalidArgument, path_ + " is no file that letters can be kept in"};
    }
    // Its name must be on the disk before the first letter is said to be.
    const std::size_t slash = path_.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : path_.substr(0, slash + 1);
    const FileDescriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!opened.is_open() || fsync(opened.get()) != 0) {
      return system_error("cannot bring the folder of " + path_ + " to the disk", errno);
    }
    file_ = std::move(file);
    return {};
  }

  // A last line without its newline is what a crash left of a letter, which was never said to be stored; unless
  // somebody has edited the file, and it is whole.
  Result<void> repair() {
    const int file = file_.get();
    std::string line;
    constexpr off_t kStep = 4096;
    for (off_t end = size_; end > 0;) {
      const off_t begin = std::max<off_t>(0, end - kStep);
      std::string part(static_cast<std::size_t>(end - begin), '\0');
      const ssize_t got = pread(file, part.data(), part.size(), begin);
      if (got != static_cast<ssize_t>(part.size())) {
        return system_error("cannot read " + path_, got < 0 ? errno : EIO);
      }
      const std::size_t newline = part.rfind('\n');
      const bool found = newline != std::string::npos;
      line.insert(0, part, found ? newline + 1 : 0, std::string::npos);
      if (found) break;
      end = begin;
    }
    if (line.empty()) return {};
    if (is_json(line)) {
      if (write(file, "\n", 1) != 1) return system_error("cannot write " + path_, errno);
      ++size_;
      return {};
    }
    size_ -= static_cast<off_t>(line.size());
    if (ftruncate(file, size_) == 0) return {};
    return system_error("cannot cut the torn last line off " + path_, errno);
  }

  const std::string path_;
  // Of the thread that stores.
  FileDescriptor file_;
  off_t size_ = 0;  // before the lines that are written

  GroupCommit<std::string> commits_;
};

}  // namespace

std::shared_ptr<DeadLetters> dead_letter_file(std::string path) {
  return std::make_shared<DeadLetterFile>(std::move(path));
}

}  // namespace keyway
