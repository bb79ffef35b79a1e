// What a replay puts in the place of a run's files: letters come in, those that die again go back.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "dead/letter_file.h"
#include "dead/letter_source.h"
#include "dead/selection.h"
#include "run/run_input.h"

namespace keyway::dead {

class ReplayInput final : public run::RunInput {
 public:
  static Result<std::unique_ptr<run::RunInput>> open(const std::string& file,
                                                     const Selection& selection);

  Source& source() override { return source_; }
  // A letter's own key and group hold; one that has no key is looked at anew.
  run::Classify classify(run::Classify of_options) override;
  std::shared_ptr<DeadLetters> dead_letters(const run::WriteLine& log) override;
  std::string dead_file() const override { return file_.path(); }
  run::InputPosition position() const override;
  Result<void> finish() override;

 private:
  class Again;
  ReplayInput(LetterFile file, std::vector<std::size_t> which)
      : file_(std::move(file)), source_(file_, std::move(which)) {}
  Result<void> store_again(const DeadLetter& letter, DeadLetters& to);

  LetterFile file_;
  LetterSource source_;
  std::set<std::size_t> staying_;
};

}  // namespace keyway::dead
