#include "exec/key_slot.h"

#include <algorithm>
#include <cerrno>
#include <csignal>

#include <unistd.h>

#include "base/system_error.h"
#include "exec/holder_watch.h"

namespace keyway::exec {

namespace {

using Clock = Interrupts::Clock;

// Far longer than anybody needs it, unless it was stopped meanwhile.
constexpr std::chrono::seconds kMutexPatience(10);

std::optional<Clock::time_point> earlier(std::optional<Clock::time_point> a,
                                         std::optional<Clock::time_point> b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

Holder holder_of(const SlotRecord& record) {
  Holder holder{.pid = record.command_pid > 0 ? record.command_pid : record.pid,
                .name = record.name};
  holder.age = time_since_boot() - std::chrono::nanoseconds(record.since_ns);
  holder.is_gone = holder.pid > 0 && kill(holder.pid, 0) != 0 && errno == ESRCH;
  return holder;
}

}  // namespace

KeySlot::KeySlot(const SlotFolder& folder, std::string_view key)
    : folder_(folder), file_name_(key_file_name(key)) {}

Result<SlotOutcome> KeySlot::take(const SlotRequest& request) {
  Interrupts interrupts;
  if (auto locked = open_and_lock(interrupts); !locked) return locked.error();
  bool taken = false;
  if (file_->count_tickets() == 0) {
    const Result<bool> took = take_free_slot(request);
    if (!took) return took.error();
    taken = *took;
  }
  SlotOutcome outcome;
  if (!taken && !request.waits) outcome = {SlotOutcome::kFull, 0, occupancy()};
  if (!taken && request.waits) {
    Result<KeyFile::Ticket> ticket = file_->take_ticket();
    if (!ticket) return ticket.error();
    ticket_ = *ticket;
  }
  file_->unlock_mutex();
  if (ticket_) {
    Result<SlotOutcome> waited = wait_in_line(request, interrupts);
    if (!waited) return waited.error();
    outcome = std::move(*waited);
  }
  return outcome;
}

// The mutex of the file that has the key's name now: the one that was opened may have been removed
// before it could be locked.
Result<void> KeySlot::open_and_lock(Interrupts& interrupts) {
  while (true) {
    Result<KeyFile> opened = KeyFile::open(folder_, file_name_);
    if (!opened) return opened.error();
    file_.emplace(std::move(*opened));
    if (auto locked = lock_mutex(interrupts); !locked) return locked;
    if (!file_->is_removed()) return {};
  }
}

Result<void> KeySlot::lock_mutex(Interrupts& interrupts) {
  int failure = file_->lock_mutex(/*waits=*/false);
  const auto patience = Clock::now() + kMutexPatience;
  while (failure == EAGAIN || failure == EINTR) {
    interrupts.wake_at(patience);
    failure = file_->lock_mutex(/*waits=*/true);
    if (failure == EINTR && Clock::now() >= patience) {
      return Error{ErrorCode::kIo,
                   path() +
                       " has been locked for 10 s by a process that does not go on\n"
                       "try: ps -C keyway, for one that is stopped"};
    }
  }
  if (failure == 0) return {};
  return system_error("cannot lock " + path(), failure);
}

// REQUIRES: the mutex. Nobody else takes a slot meanwhile, so that fewer are held than counted, or
// as many.
Result<bool> KeySlot::take_free_slot(const SlotRequest& request) {
  const std::vector<int> held = file_->held_slots();
  if (held.size() >= static_cast<std::size_t>(request.limit)) return false;
  Result<KeyFile> own = KeyFile::open(folder_, file_name_);
  if (!own) return own.error();
  if (!own->is_same_file(*file_)) {
    return Error{ErrorCode::kConflict, path() +
                                           " was removed or replaced while it was in use\n"
                                           "try: the same command again"};
  }
  int slot = 0;
  while (std::ranges::binary_search(held, slot)) ++slot;
  // First the record: who finds the slot taken reads no older one.
  SlotRecord record{.pid = getpid(), .since_ns = time_since_boot().count()};
  request.name.copy(record.name, sizeof record.name - 1);
  own->write_record(slot, record);
  if (const int failure = own->take_slot(slot); failure != 0) {
    return system_error("cannot lock " + path(), failure);
  }
  mapped_ = own->map_record(slot);
  own->use_high_descriptor();
  slot_file_.emplace(std::move(*own));
  slot_ = slot;
  return true;
}

Result<SlotOutcome> KeySlot::wait_in_line(const SlotRequest& request, Interrupts& interrupts) {
  const auto give_up = [&](Step step) -> SlotOutcome {
    if (step == Step::kOver) return {SlotOutcome::kFull, 0, occupancy()};
    return {SlotOutcome::kInterrupted, interrupts.signal(), {}};
  };
  const Result<Step> first =
      patiently(request, interrupts, [this] { return file_->wait_for_tickets_before(*ticket_); });
  if (!first) return first.error();
  if (*first != Step::kGo) return give_up(*first);
  HolderWatch watch;
  while (true) {
    if (auto locked = lock_mutex(interrupts); !locked) return locked.error();
    const Result<bool> taken = take_free_slot(request);
    file_->unlock_mutex();
    if (!taken) return taken.error();
    if (*taken) break;
    const Result<Step> changed =
        patiently(request, interrupts, [&] { return watch.wait(holders()); });
    if (!changed) return changed.error();
    if (*changed != Step::kGo) return give_up(*changed);
  }
  file_->drop_ticket(*ticket_);
  ticket_.reset();
  return SlotOutcome{};
}

// Until `wait` returns 0, or there is a reason to give up.
template <class Wait>
Result<KeySlot::Step> KeySlot::patiently(const SlotRequest& request, Interrupts& interrupts,
                                         const Wait& wait) {
  while (true) {
    const auto notice_at = noticed_ ? std::nullopt : request.notice_at;
    interrupts.wake_at(earlier(request.deadline, notice_at));
    if (interrupts.signal() != 0) return Step::kInterrupted;
    const auto now = Clock::now();
    if (request.deadline && now >= *request.deadline) return Step::kOver;
    if (notice_at && now >= *notice_at) {
      noticed_ = true;
      request.notice(occupancy());
      continue;
    }
    const int failure = wait();
    if (failure == 0) return Step::kGo;
    if (failure != EINTR) {
      return system_error("cannot lock " + path(), failure);
    }
  }
}

std::vector<SlotRecord> KeySlot::holders() const {
  std::vector<SlotRecord> records;
  for (const int slot : file_->held_slots()) records.push_back(file_->record(slot));
  return records;
}

Occupancy KeySlot::occupancy() const {
  Occupancy seen;
  for (const SlotRecord& record : holders()) seen.holders.push_back(holder_of(record));
  seen.waiting = ticket_ ? file_->count_tickets_before(*ticket_) : file_->count_tickets();
  return seen;
}

void KeySlot::release() {
  if (!file_) return;
  Interrupts interrupts;
  const bool locked = lock_mutex(interrupts).ok();
  if (ticket_) file_->drop_ticket(*ticket_);
  if (slot_file_) slot_file_->drop_slot(slot_);
  const auto is_unused = [this] {
    return file_->held_slots().empty() && file_->count_tickets() == 0 && !file_->is_removed();
  };
  if (locked && is_unused()) unlinkat(folder_.descriptor.get(), file_name_.c_str(), 0);
  mapped_.reset();
  slot_file_.reset();
  file_.reset();
}

}  // namespace keyway::exec
