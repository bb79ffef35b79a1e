#include "dead/letter_source.h"

#include <utility>

#include "base/stable_hash.h"

namespace keyway::dead {
namespace {

constexpr std::size_t kMostBytesOfAPoll = std::size_t{4} << 20;

}  // namespace

LetterSource::LetterSource(LetterFile& file, std::vector<std::size_t> which)
    : file_(file), which_(std::move(which)) {}

std::string LetterSource::place_of(const Record& record) const {
  return name() + ": " + letter_of(record).id;
}

std::string LetterSource::unique_id_of(const Record& record) const {
  const StoredLetter& letter = letter_of(record);
  if (letter.unique_id) return *letter.unique_id;
  StableHash hash;
  for (const std::string* const text : {&letter.source, &letter.id, &letter.record}) {
    hash.add_number(text->size());
    hash.add(*text);
  }
  return hash.hex();
}

const StoredLetter& LetterSource::letter_of(const Record& record) const {
  const auto found = in_flight_.find(record.offset);
  KEYWAY_CHECK(found != in_flight_.end(), "a letter is asked for after it was committed");
  return *found->second;
}

Result<void> LetterSource::open(std::function<void()>) { return {}; }

Result<Polled> LetterSource::poll(std::vector<Record>& records, std::vector<PartitionEvent>& events,
                                  std::size_t most) {
  if (!std::exchange(is_assigned_, true)) {
    events.push_back({PartitionEvent::kAssigned, committed_});
    return Polled{Polled::kMore};
  }
  std::size_t bytes = 0;
  for (std::size_t count = 0; count < most && bytes < kMostBytesOfAPoll && !is_paused_; ++count) {
    if (next_ == which_.size()) return Polled{Polled::kEnd};
    const std::size_t which = which_[next_];
    Result<StoredLetter> read = file_.read(which);
    if (!read) return read.error();
    const auto letter = std::make_shared<const StoredLetter>(std::move(*read));
    const auto offset = static_cast<Offset>(which);
    Record record{.offset = offset, .end = offset + 1, .number = ++next_, .value = letter->record};
    if (letter->key) record.key = *letter->key;
    if (letter->group) record.group = *letter->group;
    record.buffer = letter;
    in_flight_[offset] = letter;
    bytes += letter->record.size();
    records.push_back(std::move(record));
  }
  return Polled{is_paused_ ? Polled::kIdle : Polled::kMore};
}

Result<void> LetterSource::commit(std::span<const Progress> progress) {
  for (const Progress& one : progress) committed_ = one;
  std::erase_if(in_flight_, [this](const auto& letter) {
    return is_settled(static_cast<std::size_t>(letter.first));
  });
  return {};
}

bool LetterSource::is_settled(std::size_t which) const {
  const auto offset = static_cast<Offset>(which);
  return offset < committed_.watermark || contains(committed_.done_above, offset);
}

std::vector<std::size_t> LetterSource::settled() const {
  std::vector<std::size_t> settled;
  for (std::size_t at = 0; at < next_; ++at) {
    if (is_settled(which_[at])) settled.push_back(which_[at]);
  }
  return settled;
}

}  // namespace keyway::dead
