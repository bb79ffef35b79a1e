// Prints what jobs wrote in the order of the jobs, whatever the order in which they ended.
//
// What must wait for an earlier job is kept in one store: 16 MiB in memory, beyond that in a
// temporary file without a name. Each job that waits costs some 100 bytes besides.
//
// Thread safety: one thread.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "jobs/output_printer.h"
#include "process/captured_output.h"

namespace keyway::jobs {

class OrderedOutput final : private Printout {
 public:
  // `advanced`: next() is another job now.
  OrderedOutput(OutputPrinter& printer, std::function<void()> advanced)
      : printer_(printer), advanced_(std::move(advanced)) {}

  // Every job from 1 on does one of these, once.
  void add(std::uint64_t seq, const CapturedOutput& out, const CapturedOutput& err);
  void skip(std::uint64_t seq);
  // No other job comes: what is left is printed, past those that are missing.
  void finish();

  // The first job that has not done either; those behind it wait.
  std::uint64_t next() const { return next_; }
  bool idle() const { return held_.empty() && !printing_; }

 private:
  struct Held {
    std::array<std::uint64_t, 2> begin{};
    std::array<std::uint64_t, 2> size{};
    std::string note;  // about what could not be kept; comes after its stderr
  };
  static constexpr std::size_t kMemoryBytes = std::size_t{16} << 20;

  void copy(const CapturedOutput& text, std::size_t stream, Held& held);
  void print_next();

  std::uint64_t size(Stream stream) const override;
  std::string_view read(Stream stream, std::uint64_t offset, std::span<char> buffer) override;
  void printed() override;

  OutputPrinter& printer_;
  const std::function<void()> advanced_;
  std::uint64_t next_ = 1;
  bool finishing_ = false;
  bool printing_ = false;
  bool in_loop_ = false;
  Held now_;
  std::map<std::uint64_t, Held> held_;
  CapturedOutput store_{kMemoryBytes};
};

}  // namespace keyway::jobs
