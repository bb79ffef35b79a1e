#include "dead/letter_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <unordered_map>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_descriptor.h"
#include "base/stable_hash.h"
#include "base/system_error.h"

namespace keyway::dead {
namespace {

using Next = DeadLetterReader::Next;

StableHash::Value identity_of(const StoredLetter& letter) {
  StableHash hash;
  hash.add_number(letter.id.size());
  hash.add(letter.id);
  hash.add(letter.record);
  return hash.value();
}

struct LowBits {
  std::size_t operator()(const StableHash::Value& value) const { return value.low; }
};

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

Result<void> sync_folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const FileDescriptor opened(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened.is_open() || fsync(opened.get()) != 0) {
    return system_error("cannot bring " + folder + " to the disk", errno);
  }
  return {};
}

}  // namespace

Result<LetterFile> LetterFile::open(const std::string& path) {
  Result<DeadLetterReader> reader = DeadLetterReader::open(path);
  if (!reader) return reader.error();
  LetterFile file(path, std::move(*reader));
  struct stat status{};
  if (stat(path.c_str(), &status) == 0) file.inode_ = status.st_ino;
  if (const Result<void> read = file.read_lines(); !read) return read.error();
  return file;
}

Result<void> LetterFile::read_lines() {
  std::unordered_map<StableHash::Value, std::size_t, LowBits> known;
  while (true) {
    const Result<Next> next = reader_.next();
    if (!next) return next.error();
    switch (*next) {
      case Next::kLetter: {
        const auto [at, is_new] = known.try_emplace(identity_of(reader_.letter()), letters_.size());
        if (is_new) letters_.push_back({.place = reader_.begin()});
        letters_[at->second].begin = reader_.begin();
        break;
      }
      case Next::kDamaged:
        damaged_.push_back(reader_.number());
        others_.push_back({.place = reader_.begin(), .begin = reader_.begin()});
        break;
      case Next::kTorn:
        is_torn_ = true;
        break;
      case Next::kEnd:
        return {};
    }
  }
}

Result<void> LetterFile::go_to(Offset begin) {
  if (const Result<void> sought = reader_.seek(begin); !sought) return sought;
  const Result<Next> next = reader_.next();
  if (!next) return next.error();
  if (*next == Next::kEnd) {
    return Error{ErrorCode::kConflict, path_ + " was changed by somebody else"};
  }
  return {};
}

Result<void> LetterFile::for_each(const Visit& visit) {
  for (std::size_t which = 0; which < letters_.size(); ++which) {
    if (const Result<void> gone = go_to(letters_[which].begin); !gone) return gone;
    if (!visit(which, reader_.letter(), reader_.line())) break;
  }
  return {};
}

Result<StoredLetter> LetterFile::read(std::size_t which) {
  if (const Result<void> gone = go_to(letters_[which].begin); !gone) return gone.error();
  return std::move(reader_.letter());
}

Result<void> LetterFile::remove(const std::set<std::size_t>& which) {
  if (which.empty()) return {};
  // A run that appends waits for this lock: see DeadLetterFile. What it has appended since this file was read comes
  // after all that is known, or is one of these again.
  const FileDescriptor file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status{};
  if (!file.is_open() || flock(file.get(), LOCK_EX) != 0 || fstat(file.get(), &status) != 0) {
    return system_error("cannot lock " + path_, errno);
  }
  Result<LetterFile> now = LetterFile::open(path_);
  if (!now) return now.error();
  if (status.st_nlink == 0 || now->inode_ != inode_ || now->size() < size()) {
    return Error{ErrorCode::kConflict, path_ + " was changed by somebody else\n  try: again",
                 /*retryable=*/true};
  }
  return now->remove_locked(which, status.st_mode & 0777U);
}

Result<void> LetterFile::remove_locked(const std::set<std::size_t>& which, unsigned mode) {
  if (which.size() == letters_.size() && others_.empty()) {
    if (unlink(path_.c_str()) != 0) return system_error("cannot remove " + path_, errno);
    return sync_folder_of(path_);
  }
  // Always the same name: what a crash has left is written over.
  const std::string beside = path_ + ".new";
  FileDescriptor descriptor(::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!descriptor.is_open()) return system_error("cannot write " + beside, errno);
  const auto fail = [&](Error error) {
    unlink(beside.c_str());
    return error;
  };
  const std::unique_ptr<std::FILE, CloseFile> to(fdopen(dup(descriptor.get()), "w"));
  if (to == nullptr) return fail(system_error("cannot write " + beside, errno));
  if (const Result<void> written = write_others(to.get(), which); !written) {
    return fail(written.error());
  }
  if (std::fflush(to.get()) != 0 || fchmod(descriptor.get(), mode) != 0 ||
      fsync(descriptor.get()) != 0) {
    return fail(system_error("cannot write " + beside, errno));
  }
  if (std::rename(beside.c_str(), path_.c_str()) != 0) {
    return fail(system_error("cannot replace " + path_, errno));
  }
  return sync_folder_of(path_);
}

Result<void> LetterFile::write_others(std::FILE* to, const std::set<std::size_t>& which) {
  std::vector<Line> kept;
  for (std::size_t at = 0; at < letters_.size(); ++at) {
    if (!which.contains(at)) kept.push_back(letters_[at]);
  }
  kept.insert(kept.end(), others_.begin(), others_.end());
  std::ranges::sort(kept, {}, &Line::place);
  for (const Line& line : kept) {
    if (const Result<void> gone = go_to(line.begin); !gone) return gone;
    const std::string_view text = reader_.line();
    if (std::fwrite(text.data(), 1, text.size(), to) != text.size() || std::fputc('\n', to) < 0) {
      return system_error("cannot write beside " + path_, errno);
    }
  }
  return {};
}

}  // namespace keyway::dead
