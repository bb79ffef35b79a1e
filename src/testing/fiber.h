// A stack of its own for one function at a time, which can be left in the middle and gone on with later: so that a
// simulated item can wait while others run, on one thread.
//
//   Fiber fiber;
//   fiber.start(item);          // runs item.run() until it ends or suspends
//   while (!fiber.idle()) fiber.resume();
//
// Thread safety: one thread.
// Lifetime: idle() when it is destroyed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace keyway::testing {

class Fiber {
 public:
  class Body {
   public:
    virtual void run_in_fiber() = 0;

   protected:
    ~Body() = default;
  };

  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Both return when the body has ended, or suspends. REQUIRES: idle(); suspended.
  void start(Body& body);
  void resume();
  bool idle() const;

  // The fiber that the caller runs in; null: none.
  static Fiber* current();
  // Goes back to the caller of start() or resume(). REQUIRES: this is current().
  void suspend();

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace keyway::testing
