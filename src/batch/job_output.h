// What one try of a job writes, on its way to the printer.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "batch/batch_options.h"
#include "jobs/output_printer.h"
#include "process/captured_output.h"
#include "process/process.h"

namespace keyway::batch {

// kGroup, kKeepOrder: it is kept until the try has ended. kLine: whole lines go out as they come.
// kNone: it is dropped.
//
// Thread safety: one thread.
class JobOutput final : public OutputListener {
 public:
  JobOutput(OutputMode mode, jobs::OutputPrinter& printer) : mode_(mode), printer_(printer) {}

  // Once it is known: whoever writes faster than lines can be printed is paused.
  void set_process(Process& process) { process_ = &process; }

  void output(Stream stream, std::string_view text) override;
  // No more is coming. What is left of a last line without newline gets one.
  void finish();

  // What was kept.
  CapturedOutput& kept(Stream stream) { return kept_[static_cast<std::size_t>(stream)]; }
  // The last of what went to stderr, in whatever mode but kNone.
  std::string end_of_errors() const;

 private:
  // A line longer than this goes out in parts.
  static constexpr std::size_t kLongestLine = 64 * 1024;

  static constexpr std::size_t kEndBytes = 2000;

  void pass_on_lines(Stream stream, std::string_view text);

  const OutputMode mode_;
  jobs::OutputPrinter& printer_;
  Process* process_ = nullptr;
  std::array<CapturedOutput, 2> kept_;
  std::array<std::string, 2> unfinished_;
  std::string end_of_errors_;  // if it is not kept
};

}  // namespace keyway::batch
