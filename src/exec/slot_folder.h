// The folder in which the processes of a machine meet: a file for each key that is in use.
//
//   Result<SlotFolder> folder = open_slot_folder(find_slot_folder("", getenv("XDG_RUNTIME_DIR")));
//
// Guarantees:
//   (1) Nobody else can write into a folder that was found: it is the user's own, and open to the
//       user alone. A name in /tmp that somebody else took first is an error, not a trap.
//   (2) A folder that was named is taken as it is, unless everybody may write into it. Whoever may
//       write into it may use its files: a group's folder serves the group.
#pragma once

#include <string>
#include <string_view>

#include <sys/types.h>

#include "base/file_descriptor.h"
#include "keyway/error.h"

namespace keyway::exec {

struct FolderChoice {
  std::string path;
  bool is_named = false;  // by the user, not found
};

// `named` if there is one; else $XDG_RUNTIME_DIR/keyway, where that is a folder of the user's own;
// else /tmp/keyway-UID. Null: the variable is not set.
FolderChoice find_slot_folder(std::string_view named, const char* runtime_folder);

struct SlotFolder {
  std::string path;
  FileDescriptor descriptor;
  mode_t file_mode = 0600;
};

// Makes it if it is not there.
Result<SlotFolder> open_slot_folder(const FolderChoice& choice);

// The key itself, with %2F for what is neither a letter, a digit nor one of "-_.", and ".slots". A
// key for which that is too long for a file system is cut, and has a hash of 128 bits instead.
std::string key_file_name(std::string_view key);

}  // namespace keyway::exec
