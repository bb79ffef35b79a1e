// Passes what jobs wrote on to the program's own stdout and stderr, one job after the other.
//
// It waits for a slow reader without holding up anything else: whoever prints is told when it is
// out, and a job keeps its place until then, so that what waits to be printed is bounded by what
// may run.
//
// Guarantees:
//   (1) A Printout comes out whole, its stdout before its stderr, and nothing between its parts.
//   (2) In the order of print().
//   (3) A stdout that fails (nobody reads it any more) is told of once; what would go there is
//       dropped. What cannot go to stderr is dropped silently.
//
// Thread safety: one thread.
// Lifetime: Printouts outlive their printing.
#pragma once

#include <array>
#include <coroutine>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "keyway/task.h"
#include "process/captured_output.h"
#include "process/event_loop.h"
#include "process/process.h"

namespace keyway::jobs {

// Something to be printed.
class Printout {
 public:
  virtual std::uint64_t size(Stream stream) const = 0;
  virtual std::string_view read(Stream stream, std::uint64_t offset, std::span<char> buffer) = 0;
  virtual void printed() = 0;  // may destroy it

 protected:
  ~Printout() = default;
  void begin_again() { done_ = {}; }  // to be printed another time

 private:
  friend class OutputPrinter;
  std::array<std::uint64_t, 2> done_{};
};

class OutputPrinter final : private Watcher {
 public:
  struct Hooks {
    std::function<void()> before_output;    // something is about to be written
    std::function<void(int error)> failed;  // to stdout
    std::function<void()> drained;          // it was congested()
  };

  // Without a loop it waits for slow readers.
  OutputPrinter(int out, int err, EventLoop* loop, Hooks hooks);
  ~OutputPrinter();
  OutputPrinter(const OutputPrinter&) = delete;
  OutputPrinter& operator=(const OutputPrinter&) = delete;

  // printed() may be called before this returns.
  void print(Printout& printout);
  // A copy of the text, now or as soon as it can be.
  void print_text(Stream stream, std::string_view text);
  // More text waits than should: who can, stops writing until `drained`.
  bool congested() const { return waiting_text_ > kMostText; }
  bool idle() const { return queue_.empty(); }
  // Drops what is not out yet, and whatever comes.
  void give_up();

 private:
  class Text;
  static constexpr std::size_t kPieceBytes = 64 * 1024;
  static constexpr std::size_t kMostText = 256 * 1024;

  void pump();
  bool write_some(Printout& printout, Stream stream);
  bool would_block(int descriptor);
  void ready(std::uint32_t events) override;

  const std::array<int, 2> descriptors_;
  std::array<bool, 2> is_file_{};
  std::array<bool, 2> broken_{};
  EventLoop* const loop_;
  const Hooks hooks_;
  std::unique_ptr<char[]> buffer_ = std::make_unique<char[]>(kPieceBytes);
  std::deque<Printout*> queue_;
  std::size_t waiting_text_ = 0;
  bool pumping_ = false;
  int watched_ = -1;
};

// What one job wrote; a coroutine waits until it is out:
//
//   co_await Printing(printer, std::move(out), std::move(err));
class Printing final : private Printout {
 public:
  // `waits_for_others`: also if it is empty itself, until all that was to be printed before is out.
  Printing(OutputPrinter& printer, CapturedOutput out, CapturedOutput err,
           bool waits_for_others = false)
      : printer_(printer),
        texts_{std::move(out), std::move(err)},
        waits_for_others_(waits_for_others) {}

  bool await_ready() {
    const bool is_empty = texts_[0].empty() && texts_[1].empty();
    if (is_empty && (!waits_for_others_ || printer_.idle())) return true;
    printer_.print(*this);
    return printed_;
  }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> coroutine) {
    coroutine_ = coroutine;
    context_ = &coroutine.promise().context();
  }
  void await_resume() const noexcept {}

 private:
  std::uint64_t size(Stream stream) const override { return text(stream).size(); }
  std::string_view read(Stream stream, std::uint64_t offset, std::span<char> buffer) override {
    return text(stream).read(offset, buffer);
  }
  void printed() override {
    printed_ = true;
    if (coroutine_) resumption_.post(coroutine_, *context_);
  }
  const CapturedOutput& text(Stream stream) const {
    return texts_[static_cast<std::size_t>(stream)];
  }

  OutputPrinter& printer_;
  std::array<CapturedOutput, 2> texts_;
  const bool waits_for_others_;
  std::coroutine_handle<> coroutine_;
  const detail::TaskContext* context_ = nullptr;
  detail::Resumption resumption_;
  bool printed_ = false;
};

}  // namespace keyway::jobs
