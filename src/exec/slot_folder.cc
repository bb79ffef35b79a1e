#include "exec/slot_folder.h"

#include <cerrno>
#include <cstdint>
#include <cstdio>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/system_error.h"

namespace keyway::exec {

namespace {

constexpr std::size_t kLongestName = 200;
constexpr mode_t kEverybodyWrites = 0002;
constexpr mode_t kOthersWrite = 0022;

Error refused(const std::string& path, const std::string& why, const std::string& next_step) {
  return {ErrorCode::kConflict, path + " " + why + "\ntry: " + next_step};
}

Result<void> check(const FolderChoice& choice, const struct stat& found) {
  const std::string& path = choice.path;
  if (choice.is_named) {
    if ((found.st_mode & kEverybodyWrites) == 0) return {};
    return refused(path, "can be written by everybody, who could hold up or forge its slots",
                   "--state " + path + "/keyway");
  }
  if (found.st_uid != geteuid()) {
    return refused(path, "belongs to user " + std::to_string(found.st_uid) + ", not to you",
                   "--state DIR");
  }
  if ((found.st_mode & kOthersWrite) != 0) {
    return refused(path, "can be written by others, who could hold up or forge its slots",
                   "chmod 700 " + path);
  }
  return {};
}

// FNV-1a: the same in every process and version, which hash_key() is not.
std::string hash_text(std::string_view key) {
  __extension__ using Wide = unsigned __int128;
  constexpr Wide kPrime = (Wide{1} << 88) + 0x13b;
  Wide hash = (Wide{0x6c62272e07bb0142} << 64) + 0x62b821756295c58d;
  for (const char letter : key) hash = (hash ^ static_cast<unsigned char>(letter)) * kPrime;
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(hash >> 64),
                static_cast<unsigned long long>(hash));
  return text;
}

bool is_plain(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
         (letter >= '0' && letter <= '9') || letter == '-' || letter == '_' || letter == '.';
}

}  // namespace

FolderChoice find_slot_folder(std::string_view named, const char* runtime_folder) {
  if (!named.empty()) return {std::string(named), true};
  struct stat found{};
  // Not one that sudo or su left over: root's file in a user's folder would lock the user out.
  if (runtime_folder != nullptr && runtime_folder[0] == '/' && stat(runtime_folder, &found) == 0 &&
      S_ISDIR(found.st_mode) && found.st_uid == geteuid()) {
    return {std::string(runtime_folder) + "/keyway"};
  }
  return {"/tmp/keyway-" + std::to_string(geteuid())};
}

Result<SlotFolder> open_slot_folder(const FolderChoice& choice) {
  const std::string& path = choice.path;
  const auto failed = [&](const char* what, int number) {
    Error error = system_error(what + path, number);
    error.message += "\ntry: --state DIR";
    return error;
  };
  const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | (choice.is_named ? 0 : O_NOFOLLOW);
  FileDescriptor descriptor(open(path.c_str(), flags));
  if (!descriptor.is_open() && errno == ENOENT) {
    if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
      return failed("cannot make the folder ", errno);
    }
    descriptor = FileDescriptor(open(path.c_str(), flags));
  }
  if (!descriptor.is_open()) return failed("cannot open the folder ", errno);
  struct stat found{};
  if (fstat(descriptor.get(), &found) != 0) return failed("cannot read the folder ", errno);
  if (const Result<void> checked = check(choice, found); !checked) return checked.error();
  return SlotFolder{path, std::move(descriptor), (found.st_mode & 0666) | 0600};
}

std::string key_file_name(std::string_view key) {
  std::string name;
  for (const char letter : key) {
    if (is_plain(letter) && !(name.empty() && letter == '.')) {
      name += letter;
    } else {
      char text[4];
      std::snprintf(text, sizeof text, "%%%02X", static_cast<unsigned char>(letter));
      name += text;
    }
  }
  // "%-" is no escape, so that no other key has this name.
  if (name.size() > kLongestName) name = name.substr(0, kLongestName) + "%-" + hash_text(key);
  return name + ".slots";
}

}  // namespace keyway::exec
