#include "batch/run_state.h"

#include <array>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/system_error.h"

namespace keyway::batch {

namespace {

constexpr std::string_view kHeader = "keyway-batch-v1\n";

Result<void> write_all(int file, const void* data, std::size_t size, const std::string& path) {
  const char* bytes = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = write(file, bytes, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return system_error("cannot write " + path, written == 0 ? ENOSPC : errno);
    bytes += written;
    size -= static_cast<std::size_t>(written);
  }
  return {};
}

}  // namespace

std::string RunState::folder_of(const Options& options) {
  if (!options.state_dir.empty()) return options.state_dir;
  if (options.jobs_file != "-") return options.jobs_file + ".keyway";
  return options.name.empty() ? "" : options.name + ".keyway";
}

Result<RunState> RunState::open(const std::string& folder, bool fresh) {
  Result<jobs::StateFolder> taken = jobs::StateFolder::take(folder);
  if (!taken) return taken.error();
  RunState state(folder);
  state.folder_lock_ = std::move(*taken);
  if (fresh) {
    for (const std::string& path : {state.log_path(), state.fingerprint_path()}) {
      if (unlink(path.c_str()) != 0 && errno != ENOENT) {
        return system_error("cannot remove " + path, errno);
      }
    }
  }
  if (const Result<void> read = state.read_fingerprints(); !read) return read.error();
  if (const Result<void> read = state.read_log(); !read) return read.error();
  Result<jobs::JobLog> log = jobs::JobLog::open(state.log_path());
  if (!log) return log.error();
  state.log_ = std::move(*log);
  return state;
}

Result<RunState> RunState::peek(const std::string& folder) {
  RunState state(folder);
  if (const Result<void> read = state.read_fingerprints(); !read) return read.error();
  if (const Result<void> read = state.read_log(); !read) return read.error();
  return state;
}

Result<void> RunState::read_fingerprints() {
  const FileDescriptor file(::open(fingerprint_path().c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) {
    if (errno == ENOENT) return {};
    return system_error("cannot open " + fingerprint_path(), errno);
  }
  struct stat status{};
  if (fstat(file.get(), &status) != 0) return system_error("cannot read " + folder_, errno);
  std::string text(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t got = 0;
  while (got < text.size()) {
    const ssize_t bytes = ::read(file.get(), text.data() + got, text.size() - got);
    if (bytes <= 0)
      return system_error("cannot read " + fingerprint_path(), bytes < 0 ? errno : EIO);
    got += static_cast<std::size_t>(bytes);
  }
  if (!text.starts_with(kHeader)) {
    return Error{ErrorCode::kConflict, fingerprint_path() +
                                           " is not of a batch, or of another version"
                                           "\n  try: --state DIR, or --fresh to run all jobs"};
  }
  earlier_.resize((text.size() - kHeader.size()) / sizeof(std::uint64_t));  // a torn last one goes
  std::memcpy(earlier_.data(), text.data() + kHeader.size(),
              earlier_.size() * sizeof(std::uint64_t));
  return {};
}

Result<void> RunState::read_log() {
  std::uint64_t unknown = 0;
  Result<void> read = jobs::JobLog::read(log_path(), [&](std::uint64_t seq, bool ok) {
    has_earlier_run_ = true;
    if (seq == 0 || seq > earlier_.size()) {
      unknown = seq;
      return;
    }
    if (!ok) return;
    if (done_.empty()) done_.resize(earlier_.size() + 1);
    if (!done_[seq]) ++done_count_;
    done_[seq] = true;
  });
  if (!read || unknown == 0) return read;
  return Error{ErrorCode::kConflict, log_path() + " speaks of job " + std::to_string(unknown) +
                                         ", which " + fingerprint_path() +
                                         " does not know\n  try: --fresh to run all jobs"};
}

Error RunState::changed(const std::string& name, std::uint64_t seq) const {
  return {ErrorCode::kConflict,
          "job " + std::to_string(seq) + " of " + name + " is done according to " + log_path() +
              ", but its line is another one now\n  try: --fresh to run all jobs again, --state "
              "DIR for a run of its own, or put the line back (lines may be added at the end, "
              "and those of jobs that failed may change)"};
}

Result<void> RunState::compare(const std::string& name,
                               const std::vector<std::uint64_t>& fingerprints) const {
  for (std::uint64_t seq = 1; seq < done_.size(); ++seq) {
    if (!done_[seq]) continue;
    const std::uint64_t at = seq - 1;
    if (at >= fingerprints.size() || fingerprints[at] != earlier_[at]) return changed(name, seq);
  }
  return {};
}

Result<void> RunState::match(const std::string& name,
                             const std::vector<std::uint64_t>& fingerprints) {
  if (const Result<void> same = compare(name, fingerprints); !same) return same;
  // A new file takes the place of the old one at once: after a crash there is the one or the other.
  const std::string path = fingerprint_path();
  const std::string draft = path + ".new";
  const FileDescriptor file(::open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file.is_open()) return system_error("cannot write " + draft, errno);
  Result<void> written = write_all(file.get(), kHeader.data(), kHeader.size(), draft);
  if (written) {
    written = write_all(file.get(), fingerprints.data(),
                        fingerprints.size() * sizeof(std::uint64_t), draft);
  }
  if (!written) return written;
  if (rename(draft.c_str(), path.c_str()) != 0) return system_error("cannot write " + path, errno);
  earlier_ = {};
  return {};
}

Result<void> RunState::match_next(const std::string& name, std::uint64_t seq,
                                  std::uint64_t fingerprint) {
  if (!fingerprints_.is_open()) {
    fingerprints_ =
        FileDescriptor(::open(fingerprint_path().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
    if (!fingerprints_.is_open()) return system_error("cannot write " + fingerprint_path(), errno);
    const Result<void> written =
        write_all(fingerprints_.get(), kHeader.data(), kHeader.size(), fingerprint_path());
    if (!written) return written;
  }
  const std::uint64_t at = seq - 1;
  const bool same = at < earlier_.size() && earlier_[at] == fingerprint;
  if (is_done(seq) && !same) return changed(name, seq);
  if (same) return {};
  const auto offset = static_cast<off_t>(kHeader.size() + at * sizeof fingerprint);
  if (pwrite(fingerprints_.get(), &fingerprint, sizeof fingerprint, offset) != sizeof fingerprint) {
    return system_error("cannot write " + fingerprint_path(), errno);
  }
  return {};
}

}  // namespace keyway::batch
