#include "process/child.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>
#include <type_traits>

#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/system_error.h"

namespace keyway {

namespace {

constexpr std::size_t kStackBytes = 64 * 1024;

// ThreadSanitizer cannot follow a child into the memory of its parent: there it gets a copy.
#if defined(__SANITIZE_THREAD__)
constexpr int kSharesMemory = 0;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
constexpr int kSharesMemory = 0;
#else
constexpr int kSharesMemory = CLONE_VM;
#endif
#else
constexpr int kSharesMemory = CLONE_VM;
#endif

enum class Step { kNone, kDirectory, kProgram };

// What the child tells: nothing, if its program runs.
struct Told {
  volatile int failure = 0;
  volatile Step step = Step::kNone;
};

// The child runs on a stack of its own: on the parent's it would overwrite what the parent returns
// to. One stack serves all, because the parent waits until the child has left it. Its memory is
// shared in any case, and what the child tells lies at its far end.
class ChildStack {
 public:
  ChildStack()
      : memory_(mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS | MAP_STACK, -1, 0)) {}
  ~ChildStack() {
    if (memory_ != MAP_FAILED) munmap(memory_, kStackBytes);
  }
  ChildStack(const ChildStack&) = delete;
  ChildStack& operator=(const ChildStack&) = delete;

  // REQUIRES: there is memory.
  Told& told() const { return *new (memory_) Told(); }
  // Stacks grow downwards. Null: there is no memory.
  void* top() const {
    return memory_ == MAP_FAILED ? nullptr : static_cast<char*>(memory_) + kStackBytes;
  }

 private:
  void* memory_;
};

// Everything the child needs, made ready by the parent: the child may not allocate, lock or throw.
struct Plan {
  const ChildSpec* spec = nullptr;
  std::vector<std::string> candidates;  // paths to try, in order
  std::vector<char*> argv;              // begins at [1]; [0] and [1] are for a script without "#!"
  std::vector<char*> environment;
  pid_t parent = 0;
  Told* told = nullptr;
};

std::string_view search_path(std::span<const char* const> environment) {
  constexpr std::string_view kName = "PATH=";
  for (const char* entry : environment) {
    if (std::string_view(entry).starts_with(kName)) return entry + kName.size();
  }
  return "/usr/local/bin:/usr/bin:/bin";
}

std::vector<std::string> candidates_for(const std::string& name, std::string_view path) {
  if (name.find('/') != std::string::npos) return {name};
  std::vector<std::string> found;
  while (true) {
    const std::size_t end = path.find(':');
    std::string folder(path.substr(0, end));
    if (folder.empty()) folder = ".";
    found.push_back(std::move(folder) + "/" + name);
    if (end == std::string_view::npos) return found;
    path.remove_prefix(end + 1);
  }
}

// The child's side makes system calls directly: the wrappers of the C library may be intercepted
// (by sanitizers), and their bookkeeping is the parent's.
#define KEYWAY_NO_SANITIZE __attribute__((no_sanitize("address", "thread", "undefined")))

template <class T>
KEYWAY_NO_SANITIZE long as_word(T value) {
  if constexpr (std::is_pointer_v<T>) {
    return reinterpret_cast<long>(value);
  } else {
    return static_cast<long>(value);
  }
}

template <class... Arguments>
KEYWAY_NO_SANITIZE long call(long number, Arguments... arguments) {
  return syscall(number, as_word(arguments)...);
}

KEYWAY_NO_SANITIZE void give_up(Plan& plan, Step step, int number) {
  plan.told->step = step;
  plan.told->failure = number;
  call(SYS_exit_group, 127);
}

KEYWAY_NO_SANITIZE void place(int descriptor, int target) {
  if (descriptor < 0) return;
  if (descriptor != target) {
    call(SYS_dup3, descriptor, target, 0);
  } else {
    call(SYS_fcntl, descriptor, F_SETFD, 0);  // it stays open in the program
  }
}

KEYWAY_NO_SANITIZE void reset_signals(bool pipe_too) {
  // As the kernel knows it; all zero is the default action.
  struct {
    void* handler;
    unsigned long flags;
    void* restorer;
    unsigned long mask;
  } standard{};
  if (pipe_too) call(SYS_rt_sigaction, SIGPIPE, &standard, 0, sizeof(unsigned long));
  const unsigned long nothing = 0;
  call(SYS_rt_sigprocmask, SIG_SETMASK, &nothing, 0, sizeof nothing);
}

KEYWAY_NO_SANITIZE int run_child(void* argument) {
  Plan& plan = *static_cast<Plan*>(argument);
  const ChildSpec& spec = *plan.spec;
  if (!spec.in_foreground) call(SYS_setpgid, 0, 0);
  call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  // Who ended before that cannot send the signal any more.
  if (call(SYS_getppid) != plan.parent) call(SYS_exit_group, 127);
  if (spec.group_record != nullptr) {
    *static_cast<volatile int*>(spec.group_record) = static_cast<int>(call(SYS_getpid));
  }
  place(spec.input, 0);
  place(spec.output, 1);
  place(spec.error, 2);
  place(spec.inherited, spec.inherited);
  if (spec.directory != nullptr && call(SYS_chdir, spec.directory) != 0) {
    give_up(plan, Step::kDirectory, errno);
  }
  reset_signals(/*pipe_too=*/!spec.in_foreground);
  int failure = ENOENT;
  for (const std::string& path : plan.candidates) {
    call(SYS_execve, path.c_str(), plan.argv.data() + 1, plan.environment.data());
    int number = errno;
    if (number == ENOEXEC) {  // a script without "#!" is one for the shell, as execvp() has it
      plan.argv[0] = const_cast<char*>("/bin/sh");
      plan.argv[1] = const_cast<char*>(path.c_str());
      call(SYS_execve, "/bin/sh", plan.argv.data(), plan.environment.data());
      number = errno;
    }
    if (number != ENOENT && number != ENOTDIR) failure = number;
    if (number != ENOENT && number != ENOTDIR && number != EACCES) break;
  }
  give_up(plan, Step::kProgram, failure);
  return 0;
}

SpawnFailure failure_of(const ChildSpec& spec, Step step, int number) {
  const std::string& program = spec.argv.front();
  if (step == Step::kDirectory) {
    return {
        126,
        "cannot enter the directory \"" + std::string(spec.directory) + "\": " + errno_text(number),
        number};
  }
  if (number != ENOENT) {
    return {126, "cannot run \"" + program + "\": " + errno_text(number), number};
  }
  const bool has_path = program.find('/') != std::string::npos;
  return {127,
          "cannot run \"" + program + "\": " +
              (has_path ? "no such file, or its interpreter is missing" : "not found in PATH"),
          number};
}

}  // namespace

Spawned spawn_child(const ChildSpec& spec) {
  static const ChildStack shared_stack;  // see below: one spawn at a time
  static std::atomic_flag in_use;
  Plan plan;
  plan.spec = &spec;
  plan.candidates = candidates_for(spec.argv.front(), search_path(spec.environment));
  plan.argv.reserve(spec.argv.size() + 2);
  plan.argv.push_back(nullptr);
  for (const std::string& word : spec.argv) plan.argv.push_back(const_cast<char*>(word.c_str()));
  plan.argv.push_back(nullptr);
  plan.environment.reserve(spec.environment.size() + 1);
  for (const char* entry : spec.environment) plan.environment.push_back(const_cast<char*>(entry));
  plan.environment.push_back(nullptr);
  plan.parent = getpid();

  // Threads that spawn at once have a stack each.
  std::unique_ptr<ChildStack> own_stack;
  const bool shares = !in_use.test_and_set(std::memory_order_acquire);
  if (!shares) own_stack = std::make_unique<ChildStack>();
  const ChildStack& stack = shares ? shared_stack : *own_stack;
  const bool has_memory = stack.top() != nullptr;
  if (has_memory) plan.told = &stack.told();

  // Until it has its own memory, no handler of the parent's may run in the child.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int pidfd = -1;
  const int flags = kSharesMemory | CLONE_VFORK | CLONE_PIDFD | SIGCHLD;
  const pid_t pid = has_memory ? clone(run_child, stack.top(), flags, &plan, &pidfd) : -1;
  const int clone_failure = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  const Step failed_step = has_memory ? plan.told->step : Step::kNone;
  const int failure = has_memory ? plan.told->failure : 0;
  if (shares) in_use.clear(std::memory_order_release);

  Spawned spawned;
  if (pid < 0) {
    spawned.failure = {
        125,
        "cannot start a process for \"" + spec.argv.front() + "\": " + errno_text(clone_failure),
        clone_failure};
    return spawned;
  }
  spawned.child.pidfd = FileDescriptor(pidfd);
  if (failed_step != Step::kNone) {
    waitpid(pid, nullptr, 0);
    spawned.failure = failure_of(spec, failed_step, failure);
    return spawned;
  }
  spawned.child.pid = pid;
  return spawned;
}

}  // namespace keyway
