#include "exec/key_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/system_error.h"

namespace keyway::exec {

namespace {

constexpr off_t kMutex = 0;
constexpr off_t kSlots = off_t{1} << 32;
constexpr off_t kMostSlots = off_t{1} << 20;
constexpr off_t kTickets = off_t{1} << 40;
constexpr off_t kMostTickets = off_t{1} << 60;
constexpr off_t kFirstRecord = 64;
constexpr int kHighDescriptor = 100;

struct Header {
  char magic[8] = {'k', 'e', 'y', 'w', 'a', 'y', '1', '\n'};
  KeyFile::Ticket next_ticket = 0;
};

off_t record_offset(int slot) { return kFirstRecord + slot * off_t{sizeof(SlotRecord)}; }

// How far into its page of memory it lies. A record never lies in two.
std::uintptr_t in_page(std::uintptr_t place) {
  static const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  return place % page;
}

int lock_bytes(int file, int command, short type, off_t start, off_t length) {
  struct flock range{};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = start;
  range.l_len = length;
  return fcntl(file, command, &range) == 0 ? 0 : errno;
}

void unlock_bytes(int file, off_t start, off_t length) {
  lock_bytes(file, F_OFD_SETLK, F_UNLCK, start, length);
}

// The bytes from `start` to before `end` that others have locked for themselves, in ascending
// order. The system tells of one lock in a range, whichever it comes upon first.
template <class Visit>
void visit_locked(int file, off_t start, off_t end, const Visit& visit) {
  while (start < end) {
    struct flock range{};
    range.l_type = F_RDLCK;  // a lock for reading is in nobody's way
    range.l_whence = SEEK_SET;
    range.l_start = start;
    range.l_len = end - start;
    if (fcntl(file, F_OFD_GETLK, &range) != 0 || range.l_type == F_UNLCK) return;
    visit_locked(file, start, range.l_start, visit);
    visit(range.l_start);
    start = range.l_start + 1;
  }
}

int count_locked(int file, off_t start, off_t end) {
  int count = 0;
  visit_locked(file, start, end, [&](off_t) { ++count; });
  return count;
}

}  // namespace

std::chrono::nanoseconds time_since_boot() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

Result<KeyFile> KeyFile::open(const SlotFolder& folder, const std::string& name) {
  std::string path = folder.path + "/" + name;
  const auto failed = [&](const char* what) { return system_error(what + path, errno); };
  // Not to be followed, nor waited for: it may be a link or a FIFO that somebody put there.
  const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  const int parent = folder.descriptor.get();
  FileDescriptor file(openat(parent, name.c_str(), flags | O_CREAT, 0600));
  if (!file.is_open()) return failed("cannot open ");
  struct stat found{};
  if (fstat(file.get(), &found) != 0) return failed("cannot read ");
  if (!S_ISREG(found.st_mode)) {
    return Error{ErrorCode::kConflict, path + " is not a file of keyway exec\ntry: --state DIR"};
  }
  if (found.st_uid == geteuid() && (found.st_mode & 0777) != folder.file_mode) {
    if (fchmod(file.get(), folder.file_mode) != 0) return failed("cannot set the mode of ");
  }
  if (found.st_size > 0) {
    Header header;
    const ssize_t got = pread(file.get(), header.magic, sizeof header.magic, 0);
    if (got != sizeof header.magic ||
        memcmp(header.magic, Header().magic, sizeof header.magic) != 0) {
      return Error{ErrorCode::kConflict, path + " is not a file of keyway exec\ntry: --state DIR"};
    }
  } else if (const Header header; pwrite(file.get(), header.magic, sizeof header.magic, 0) < 0) {
    return failed("cannot write ");
  }
  return KeyFile(std::move(file), std::move(path));
}

bool KeyFile::is_removed() const {
  struct stat found{};
  return fstat(file_.get(), &found) == 0 && found.st_nlink == 0;
}

bool KeyFile::is_same_file(const KeyFile& other) const {
  struct stat mine{};
  struct stat others{};
  return fstat(file_.get(), &mine) == 0 && fstat(other.file_.get(), &others) == 0 &&
         mine.st_ino == others.st_ino && mine.st_dev == others.st_dev;
}

void KeyFile::use_high_descriptor() {
  FileDescriptor high(fcntl(file_.get(), F_DUPFD_CLOEXEC, kHighDescriptor));
  if (high.is_open()) file_ = std::move(high);
}

int KeyFile::lock_mutex(bool waits) {
  return lock_bytes(file_.get(), waits ? F_OFD_SETLKW : F_OFD_SETLK, F_WRLCK, kMutex, 1);
}

void KeyFile::unlock_mutex() { unlock_bytes(file_.get(), kMutex, 1); }

Result<KeyFile::Ticket> KeyFile::take_ticket() {
  Header header;
  if (pread(file_.get(), &header, sizeof header, 0) < 0) {
    return system_error("cannot read " + path_, errno);
  }
  const Ticket ticket = header.next_ticket++;
  // Locked before it is counted: whoever sees the count go up finds the ticket taken.
  const int failure =
      lock_bytes(file_.get(), F_OFD_SETLK, F_WRLCK, kTickets + static_cast<off_t>(ticket), 1);
  if (failure != 0) return system_error("cannot lock " + path_, failure);
  if (pwrite(file_.get(), &header, sizeof header, 0) != sizeof header) {
    return system_error("cannot write " + path_, errno);
  }
  return ticket;
}

void KeyFile::drop_ticket(Ticket ticket) {
  unlock_bytes(file_.get(), kTickets + static_cast<off_t>(ticket), 1);
}

int KeyFile::wait_for_tickets_before(Ticket ticket) {
  if (ticket == 0) return 0;
  const auto number = static_cast<off_t>(ticket);
  // First for the one in front: so a line that moves on wakes one process, not all of them. Others
  // can be left if that one gave up.
  for (const off_t first : {number - 1, off_t{0}}) {
    const int failure =
        lock_bytes(file_.get(), F_OFD_SETLKW, F_RDLCK, kTickets + first, number - first);
    if (failure != 0) return failure;
  }
  unlock_bytes(file_.get(), kTickets, number);
  return 0;
}

int KeyFile::count_tickets_before(Ticket ticket) const {
  return count_locked(file_.get(), kTickets, kTickets + static_cast<off_t>(ticket));
}

int KeyFile::count_tickets() const {
  return count_locked(file_.get(), kTickets, kTickets + kMostTickets);
}

int KeyFile::take_slot(int slot) {
  return lock_bytes(file_.get(), F_OFD_SETLK, F_WRLCK, kSlots + slot, 1);
}

void KeyFile::drop_slot(int slot) { unlock_bytes(file_.get(), kSlots + slot, 1); }

std::vector<int> KeyFile::held_slots() const {
  std::vector<int> held;
  visit_locked(file_.get(), kSlots, kSlots + kMostSlots,
               [&](off_t byte) { held.push_back(static_cast<int>(byte - kSlots)); });
  return held;
}

SlotRecord KeyFile::record(int slot) const {
  SlotRecord record;
  const ssize_t got = pread(file_.get(), &record, sizeof record, record_offset(slot));
  if (got != sizeof record) record = {};
  record.name[sizeof record.name - 1] = 0;
  return record;
}

void KeyFile::write_record(int slot, const SlotRecord& record) {
  // What cannot be written is not shown; nothing else depends on it.
  [[maybe_unused]] const ssize_t written =
      pwrite(file_.get(), &record, sizeof record, record_offset(slot));
}

MappedRecord KeyFile::map_record(int slot) const {
  const off_t offset = record_offset(slot);
  const auto before = in_page(static_cast<std::uintptr_t>(offset));
  void* const page = mmap(nullptr, before + sizeof(SlotRecord), PROT_READ | PROT_WRITE, MAP_SHARED,
                          file_.get(), offset - static_cast<off_t>(before));
  if (page == MAP_FAILED) return nullptr;
  return MappedRecord(reinterpret_cast<SlotRecord*>(static_cast<char*>(page) + before));
}

void UnmapRecord::operator()(SlotRecord* record) const {
  const auto before = in_page(reinterpret_cast<std::uintptr_t>(record));
  munmap(reinterpret_cast<char*>(record) - before, before + sizeof(SlotRecord));
}

}  // namespace keyway::exec
