#include "cli/batch_flags.h"

#include <fmt/format.h>

namespace keyway::cli {

Result<batch::OutputMode> parse_output(std::string_view text) {
  if (text == "group") return batch::OutputMode::kGroup;
  if (text == "line") return batch::OutputMode::kLine;
  if (text == "keep-order") return batch::OutputMode::kKeepOrder;
  if (text == "none") return batch::OutputMode::kNone;
  return Error{ErrorCode::kInvalidArgument, "must be group, line, keep-order or none"};
}

Result<BatchFlags> batch_flags(const Invocation& call) {
  const Settings& settings = call.settings;
  Result<CommonFlags> common = common_flags(call);
  if (!common) return common.error();
  const Result<std::string> output = settings.choice("output");
  if (!output) return output.error();

  BatchFlags flags{.common = std::move(*common), .options = {}};
  const CommonFlags& given = flags.common;
  batch::Options& options = flags.options;
  options.jobs_file = call.arguments.front();
  if (!given.name.empty() && options.jobs_file != "-") {
    return usage_error(fmt::format("--name \"{}\": is for jobs from standard input", given.name),
                       fmt::format("--state {}.keyway", given.name));
  }
  take_common(given, options);
  options.report_file = given.report_file;
  // With --json standard output belongs to the summary, unless output was asked for by name.
  const bool hidden = given.json && settings.source("output") == Source::kBuiltIn;
  options.output = hidden ? batch::OutputMode::kNone : *parse_output(*output);
  return flags;
}

}  // namespace keyway::cli
