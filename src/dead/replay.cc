#include "dead/replay.h"

#include <utility>

#include "dead/replay_input.h"
#include "keyway/dead_letter_file.h"

namespace keyway::dead {

// Letters that die again.
class ReplayInput::Again final : public DeadLetters {
 public:
  explicit Again(ReplayInput& input) : input_(input), file_(dead_letter_file(input.dead_file())) {}
  Result<void> store(const DeadLetter& letter) override {
    return input_.store_again(letter, *file_);
  }

 private:
  ReplayInput& input_;
  const std::shared_ptr<DeadLetters> file_;
};

Result<std::unique_ptr<run::RunInput>> ReplayInput::open(const std::string& path,
                                                         const Selection& selection) {
  Result<LetterFile> file = LetterFile::open(path);
  if (!file) return file.error();
  Result<std::vector<std::size_t>> wanted = find(*file, selection);
  if (!wanted) return wanted.error();
  return std::unique_ptr<run::RunInput>(new ReplayInput(std::move(*file), std::move(*wanted)));
}

run::Classify ReplayInput::classify(run::Classify of_options) {
  if (!of_options) return {};
  return [this, of_options = std::move(of_options)](Record& record) -> Result<bool> {
    if (record.key) return true;
    const auto which = static_cast<std::size_t>(record.offset);
    Result<bool> wanted = of_options(record);
    if (wanted && !*wanted) staying_.insert(which);
    return wanted;
  };
}

std::shared_ptr<DeadLetters> ReplayInput::dead_letters(const run::WriteLine&) {
  return std::make_shared<Again>(*this);
}

Result<void> ReplayInput::store_again(const DeadLetter& letter, DeadLetters& to) {
  const StoredLetter& before = source_.letter_of(*letter.record);
  staying_.insert(static_cast<std::size_t>(letter.record->offset));
  // It was not even tried: what is known of it is worth more.
  if (letter.attempts == 0 && before.attempts > 0) return {};
  Record record = *letter.record;
  record.partition = before.partition;
  record.offset = before.offset;
  DeadLetter again = letter;
  again.record = &record;
  again.source = before.source;
  again.id = before.id;
  if (before.unique_id) again.unique_id = *before.unique_id;
  again.attempts += before.attempts;
  if (before.attempts > 0) again.first = before.first;
  return to.store(again);
}

run::InputPosition ReplayInput::position() const {
  return {.records = source_.given_out(), .total_records = source_.wanted()};
}

Result<void> ReplayInput::finish() {
  std::set<std::size_t> handled;
  for (const std::size_t which : source_.settled()) {
    if (!staying_.contains(which)) handled.insert(which);
  }
  return file_.remove(handled);
}

Result<jobs::Summary> replay(const Replay& replay, const run::Watch& watch) {
  run::RunOptions options = replay.options;
  options.fresh = false;
  // A letter must not go before it is handled.
  options.delivery = Delivery::kAtLeastOnce;
  return run::run_input(options, watch, [&](const jobs::StateFolder&) {
    return ReplayInput::open(replay.file, replay.selection);
  });
}

}  // namespace keyway::dead
