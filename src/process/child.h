// Starts one command as a child process, as quickly as the system can and without a shell.
//
//   Result<Child> child = spawn_child({.argv = {"ls", "-l"}, .output = pipe_end.get(), ...});
//
// Guarantees:
//   (1) argv reaches the program as it is. A name without a slash is looked up in PATH: in the
//       command's own if `environment` sets one.
//   (2) The child leads a process group of its own, and SIGPIPE has its default action; neither of
//       them with `in_foreground`. Its signal mask is empty.
//   (3) It has stdin, stdout, stderr, `inherited`, and no other descriptor that was opened
//       close-on-exec.
//   (4) It gets SIGKILL when the calling thread ends, by whatever; also if that happened meanwhile.
//   (5) A failure tells which of the three it was: status 127, there is no such program; 126, it
//       cannot be run; 125, the system could not start a process at all, and may do so later.
// Not guaranteed: (4) for a set-user-ID program, which the kernel exempts, nor for what the child
// starts itself; see Guardian.
//
// Thread safety: from any thread. The memory is the parent's until the program is loaded, so the
// calling thread waits that long: some hundred microseconds.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/file_descriptor.h"

namespace keyway {

struct ChildSpec {
  std::span<const std::string> argv;         // not empty
  std::span<const char* const> environment;  // "NAME=value"
  const char* directory = nullptr;           // null: the caller's
  int input = -1;                            // -1 for each: inherited
  int output = -1;
  int error = -1;
  int inherited = -1;           // stays open, under the same number; -1: none
  bool in_foreground = false;   // in the caller's process group: its terminal is the child's too
  int* group_record = nullptr;  // the child's id is stored here before its program runs
};

struct Child {
  pid_t pid = -1;
  FileDescriptor pidfd;  // readable once it has ended
};

struct SpawnFailure {
  int status = 0;
  std::string message;
  int error = 0;  // as errno has it
};

struct Spawned {
  Child child;  // pid -1 if it failed
  SpawnFailure failure;

  bool ok() const { return child.pid > 0; }
};

Spawned spawn_child(const ChildSpec& spec);

}  // namespace keyway
