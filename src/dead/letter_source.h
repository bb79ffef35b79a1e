// Dead letters as a source of records, so that a Pipeline can handle them like any other.
//
// Its one partition has the letters of a file in their order; a record's offset is the number of its letter. What is
// committed is kept in memory alone: who replays letters removes those that are done.
//
// Thread safety: one thread, also that of the pipeline's handlers.
// Lifetime: the file outlives it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dead/letter_file.h"
#include "keyway/source.h"

namespace keyway::dead {

class LetterSource final : public Source {
 public:
  // `which`: the letters that are wanted, in order.
  LetterSource(LetterFile& file, std::vector<std::size_t> which);

  std::string name() const override { return file_.path(); }
  std::string place_of(const Record& record) const override;
  // Those that the record had when it died.
  std::string id_of(const Record& record) const override { return letter_of(record).id; }
  std::string unique_id_of(const Record& record) const override;

  Result<void> open(std::function<void()> wake) override;
  Result<Polled> poll(std::vector<Record>& records, std::vector<PartitionEvent>& events,
                      std::size_t most) override;
  Result<void> commit(std::span<const Progress> progress) override;
  void pause(PartitionId) override { is_paused_ = true; }
  void resume(PartitionId) override { is_paused_ = false; }

  // Until the record is settled and committed.
  const StoredLetter& letter_of(const Record& record) const;

  std::uint64_t given_out() const { return next_; }
  std::uint64_t wanted() const { return which_.size(); }
  // Those of the wanted that are settled, one way or another.
  std::vector<std::size_t> settled() const;

 private:
  bool is_settled(std::size_t which) const;

  LetterFile& file_;
  const std::vector<std::size_t> which_;
  std::size_t next_ = 0;
  bool is_assigned_ = false;
  bool is_paused_ = false;
  std::map<Offset, std::shared_ptr<const StoredLetter>> in_flight_;
  Progress committed_;
};

}  // namespace keyway::dead
