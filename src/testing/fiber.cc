#include "testing/fiber.h"

#include <cstring>
#include <new>
#include <utility>

#include <cxxabi.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "keyway/detail/check.h"
#include "runtime/thread_context.h"

// The sanitizers must know which stack is in use.
#if defined(__SANITIZE_ADDRESS__)
#define KEYWAY_FIBER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KEYWAY_FIBER_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define KEYWAY_FIBER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define KEYWAY_FIBER_TSAN 1
#endif
#endif
#ifdef KEYWAY_FIBER_ASAN
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef KEYWAY_FIBER_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace keyway::testing {

namespace {

constexpr std::size_t kStackBytes = 512 * 1024;
constexpr std::size_t kGuardBytes = 4096;

constinit thread_local Fiber* current_fiber = nullptr;

// What the C++ runtime keeps per thread of exceptions that are being handled.
struct Exceptions {
  void* caught = nullptr;
  unsigned int uncaught = 0;

  static Exceptions exchange(Exceptions other) {
    auto* globals = reinterpret_cast<unsigned char*>(abi::__cxa_get_globals());
    Exceptions mine;
    std::memcpy(static_cast<void*>(&mine.caught), globals, sizeof mine.caught);
    std::memcpy(&mine.uncaught, globals + sizeof mine.caught, sizeof mine.uncaught);
    std::memcpy(globals, static_cast<const void*>(&other.caught), sizeof other.caught);
    std::memcpy(globals + sizeof other.caught, &other.uncaught, sizeof other.uncaught);
    return mine;
  }
};

}  // namespace

// Everything of a thread that must be another one's while the fiber runs.
struct Fiber::State {
  ucontext_t inside{};
  ucontext_t outside{};
  void* memory = nullptr;
  Body* body = nullptr;
  bool entered = false;
  Fiber* outer = nullptr;
  detail::Operation operation{};
  ThreadContext context{};
  Exceptions exceptions{};
#ifdef KEYWAY_FIBER_ASAN
  void* fake_stack = nullptr;
  const void* outside_bottom = nullptr;
  std::size_t outside_size = 0;
#endif
#ifdef KEYWAY_FIBER_TSAN
  void* tsan_inside = nullptr;
  void* tsan_outside = nullptr;
#endif

  void swap_thread_state() {
    std::swap(context, ThreadContext::here());
    exceptions = Exceptions::exchange(exceptions);
  }

  void enter() {
    swap_thread_state();
#ifdef KEYWAY_FIBER_TSAN
    tsan_outside = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(tsan_inside, 0);
#endif
#ifdef KEYWAY_FIBER_ASAN
    void* outside_fake_stack = nullptr;
    __sanitizer_start_switch_fiber(&outside_fake_stack, static_cast<char*>(memory) + kGuardBytes,
                                   kStackBytes);
#endif
    swapcontext(&outside, &inside);
#ifdef KEYWAY_FIBER_ASAN
    __sanitizer_finish_switch_fiber(outside_fake_stack, nullptr, nullptr);
#endif
    swap_thread_state();
  }

  void leave() {
#ifdef KEYWAY_FIBER_TSAN
    __tsan_switch_to_fiber(tsan_outside, 0);
#endif
#ifdef KEYWAY_FIBER_ASAN
    __sanitizer_start_switch_fiber(&fake_stack, outside_bottom, outside_size);
#endif
    swapcontext(&inside, &outside);
    arrived();
  }

  void arrived() {
#ifdef KEYWAY_FIBER_ASAN
    __sanitizer_finish_switch_fiber(fake_stack, &outside_bottom, &outside_size);
#endif
  }

  static void main(unsigned int low, unsigned int high) {
    auto* state = reinterpret_cast<State*>(static_cast<std::uintptr_t>(low) |
                                           static_cast<std::uintptr_t>(high) << 32);
    state->arrived();
    while (true) {
      KEYWAY_CHECK(state->body != nullptr, "a fiber is entered without work");
      state->body->run_in_fiber();
      state->body = nullptr;
      state->leave();  // returns when there is another body
    }
  }
};

Fiber::Fiber() : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.memory = mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
  if (state.memory == MAP_FAILED) throw std::bad_alloc();
  mprotect(state.memory, kGuardBytes, PROT_NONE);
  getcontext(&state.inside);
  state.inside.uc_stack.ss_sp = static_cast<char*>(state.memory) + kGuardBytes;
  state.inside.uc_stack.ss_size = kStackBytes;
  const auto address = reinterpret_cast<std::uintptr_t>(&state);
  makecontext(&state.inside, reinterpret_cast<void (*)()>(&State::main), 2,
              static_cast<unsigned int>(address), static_cast<unsigned int>(address >> 32));
  state.context.outside = &state.operation;
#ifdef KEYWAY_FIBER_TSAN
  state.tsan_inside = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
  KEYWAY_CHECK(idle(), "a fiber is destroyed while its function waits");
#ifdef KEYWAY_FIBER_TSAN
  __tsan_destroy_fiber(state_->tsan_inside);
#endif
  munmap(state_->memory, kGuardBytes + kStackBytes);
}

bool Fiber::idle() const { return state_->body == nullptr; }

Fiber* Fiber::current() { return current_fiber; }

void Fiber::start(Body& body) {
  KEYWAY_CHECK(idle(), "a fiber runs one function at a time");
  state_->body = &body;
  resume();
}

void Fiber::resume() {
  KEYWAY_CHECK(!idle(), "a fiber without a function is resumed");
  Fiber* const outer = std::exchange(current_fiber, this);
  state_->enter();
  current_fiber = outer;
}

void Fiber::suspend() { state_->leave(); }

}  // namespace keyway::testing
