// Two KeySlots in one process are to each other as those of two processes. Those that wait have a
// process each: see cli/exec_line_test.cc.
#include "exec/key_slot.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "support/temporary_folder.h"

namespace keyway::exec {
namespace {

using Kind = SlotOutcome::Kind;

class KeySlots : public ::testing::Test {
 protected:
  std::unique_ptr<KeySlot> slot(const std::string& key = "db") {
    return std::make_unique<KeySlot>(folder, key);
  }
  // Takes it if it can be had without waiting.
  Kind take(KeySlot& slot, int limit, const std::string& name = "command") {
    const auto outcome = slot.take({.limit = limit, .name = name, .waits = false});
    EXPECT_TRUE(outcome) << outcome.error().message;
    if (!outcome) return Kind::kInterrupted;
    occupancy = outcome->occupancy;
    return outcome->kind;
  }
  // A description of the file as others see it, which holds nothing.
  KeyFile file(const std::string& key = "db") {
    Result<KeyFile> opened = KeyFile::open(folder, key_file_name(key));
    if (!opened) std::abort();
    return std::move(*opened);
  }
  bool is_there(const std::string& key = "db") {
    return std::filesystem::exists(place.file(key_file_name(key)));
  }

  // Until somebody waits for a lock on the file of "db"; false after a long time.
  bool wait_until_one_is_blocked() {
    struct stat found{};
    if (stat(place.file("db.slots").c_str(), &found) != 0) return false;
    const std::string inode = ":" + std::to_string(found.st_ino) + " ";
    for (int ms = 0; ms < 60'000; ++ms) {
      std::ifstream locks("/proc/locks");
      for (std::string line; std::getline(locks, line);) {
        const bool waits = line.find("-> ") != std::string::npos;
        if (waits && line.find(inode) != std::string::npos) return true;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }

  const TemporaryFolder place;
  const SlotFolder folder = std::move(open_slot_folder({place.path(), true}).value());
  Occupancy occupancy;
};

TEST_F(KeySlots, AsManyAsTheLimitAreTaken) {
  const auto a = slot();
  const auto b = slot();
  const auto c = slot();
  EXPECT_EQ(take(*a, 2), Kind::kTaken);
  EXPECT_EQ(take(*b, 2), Kind::kTaken);
  EXPECT_EQ(take(*c, 2), Kind::kFull);
  EXPECT_NE(a->number(), b->number());
}

TEST_F(KeySlots, KeysDoNotDisturbEachOther) {
  const auto a = slot("a");
  const auto b = slot("b");
  EXPECT_EQ(take(*a, 1), Kind::kTaken);
  EXPECT_EQ(take(*b, 1), Kind::kTaken);
}

TEST_F(KeySlots, AReleasedSlotIsFreeAndTheLowestNumberIsGivenOut) {
  const auto a = slot();
  const auto b = slot();
  const auto c = slot();
  take(*a, 2);
  take(*b, 2);
  a->release();
  EXPECT_EQ(take(*c, 2), Kind::kTaken);
  EXPECT_EQ(c->number(), 0);
  EXPECT_EQ(b->number(), 1);
}

TEST_F(KeySlots, WhoComesCountsAllWhateverTheirLimits) {
  const auto a = slot();
  const auto b = slot();
  const auto strict = slot();
  const auto generous = slot();
  take(*a, 5);
  take(*b, 5);
  EXPECT_EQ(take(*strict, 2), Kind::kFull);
  EXPECT_EQ(occupancy.holders.size(), 2u);
  EXPECT_EQ(take(*generous, 3), Kind::kTaken);
}

TEST_F(KeySlots, HoldersAreNamedWithTheirAge) {
  const auto a = slot();
  take(*a, 1, "pg_dump");
  const auto b = slot();
  ASSERT_EQ(take(*b, 1), Kind::kFull);
  ASSERT_EQ(occupancy.holders.size(), 1u);
  EXPECT_EQ(occupancy.holders[0].pid, getpid());
  EXPECT_EQ(occupancy.holders[0].name, "pg_dump");
  EXPECT_GE(occupancy.holders[0].age.count(), 0);
  EXPECT_FALSE(occupancy.holders[0].is_gone);

  constexpr int kNobody = 0x7ffffffe;  // above every id that Linux gives
  *a->command_record() = kNobody;
  const auto c = slot();
  ASSERT_EQ(take(*c, 1, std::string(100, 'x')), Kind::kFull);
  EXPECT_EQ(occupancy.holders[0].pid, kNobody);
  EXPECT_TRUE(occupancy.holders[0].is_gone);
}

TEST_F(KeySlots, EverySlotHasARecordOfItsOwn) {
  std::vector<std::unique_ptr<KeySlot>> all;
  for (int i = 0; i < 200; ++i) {  // more than lie in a page of memory
    all.push_back(slot());
    ASSERT_EQ(take(*all.back(), 200), Kind::kTaken);
    *all.back()->command_record() = 1000 + i;
  }
  const KeyFile seen = file();
  for (int i = 0; i < 200; ++i) EXPECT_EQ(seen.record(i).command_pid, 1000 + i);
}

TEST_F(KeySlots, ALongNameIsCut) {
  const auto a = slot();
  take(*a, 1, std::string(100, 'x'));
  const auto b = slot();
  ASSERT_EQ(take(*b, 1), Kind::kFull);
  EXPECT_EQ(occupancy.holders[0].name, std::string(47, 'x'));
}

TEST_F(KeySlots, ASlotIsHeldUntilTheLastDescriptorIsClosed) {
  std::optional<KeyFile> taker = file();
  ASSERT_EQ(taker->take_slot(0), 0);
  FileDescriptor inherited(dup(taker->descriptor()));
  taker.reset();  // as if it had been killed
  EXPECT_EQ(take(*slot(), 1), Kind::kFull);
  inherited.close();
  EXPECT_EQ(take(*slot(), 1), Kind::kTaken);
}

TEST_F(KeySlots, AReleasedSlotIsFreeThoughOthersHaveItsDescriptor) {
  const auto a = slot();
  take(*a, 1);
  EXPECT_GE(a->descriptor(), 100);  // out of the way of a script's own
  const FileDescriptor inherited(dup(a->descriptor()));
  a->release();
  EXPECT_EQ(take(*slot(), 1), Kind::kTaken);
}

TEST_F(KeySlots, TheFileGoesWithTheLast) {
  auto a = slot();
  auto b = slot();
  take(*a, 2);
  take(*b, 2);
  a.reset();
  EXPECT_TRUE(is_there());
  b.reset();
  EXPECT_FALSE(is_there());
}

TEST_F(KeySlots, WhoGivesUpLeavesTheFileToItsHolder) {
  auto a = slot();
  take(*a, 1);
  auto b = slot();
  EXPECT_EQ(take(*b, 1), Kind::kFull);
  b.reset();
  EXPECT_TRUE(is_there());
  auto c = slot();
  EXPECT_EQ(take(*c, 1), Kind::kFull);
}

TEST_F(KeySlots, AFileThatACrashLeftBehindIsUsedAndRemoved) {
  {
    KeyFile left = file();
  }
  EXPECT_TRUE(is_there());
  auto a = slot();
  EXPECT_EQ(take(*a, 1), Kind::kTaken);
  a.reset();
  EXPECT_FALSE(is_there());
}

TEST_F(KeySlots, NobodyOvertakesOneWhoWaits) {
  auto a = slot();
  take(*a, 2);
  KeyFile waiting = file();
  ASSERT_EQ(waiting.lock_mutex(/*waits=*/false), 0);
  ASSERT_TRUE(waiting.take_ticket());
  waiting.unlock_mutex();
  const auto b = slot();
  EXPECT_EQ(take(*b, 2), Kind::kFull);
  EXPECT_EQ(occupancy.holders.size(), 1u);
  EXPECT_EQ(occupancy.waiting, 1);
}

TEST_F(KeySlots, AWaitEndsAtItsDeadlineAndLeavesTheLine) {
  const auto a = slot();
  take(*a, 1);
  const auto b = slot();
  int notices = 0;
  const auto now = SlotRequest::Clock::now();
  const auto outcome = b->take({.deadline = now + std::chrono::milliseconds(20),
                                .notice_at = now,
                                .notice = [&](const Occupancy& seen) {
                                  ++notices;
                                  EXPECT_EQ(seen.holders.size(), 1u);
                                  EXPECT_EQ(seen.waiting, 0);
                                }});
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_EQ(outcome->kind, Kind::kFull);
  EXPECT_EQ(outcome->occupancy.holders.size(), 1u);
  EXPECT_GE(SlotRequest::Clock::now(), now + std::chrono::milliseconds(20));
  EXPECT_EQ(notices, 1);
  b->release();
  EXPECT_EQ(file().count_tickets(), 0);
}

TEST_F(KeySlots, WhoLockedARemovedFileBeginsAnewWithTheOneThatIsThere) {
  KeyFile old = file();
  ASSERT_EQ(old.lock_mutex(/*waits=*/false), 0);
  auto late = slot();
  std::thread thread([&] { EXPECT_EQ(take(*late, 1), Kind::kTaken); });
  EXPECT_TRUE(wait_until_one_is_blocked());
  std::filesystem::remove(place.file("db.slots"));
  old.unlock_mutex();
  thread.join();
  EXPECT_TRUE(old.held_slots().empty());
  EXPECT_EQ(file().held_slots().size(), 1u);
}

TEST_F(KeySlots, WhoLeavesDoesNotRemoveTheFileFromUnderANewcomer) {
  auto last = slot();
  take(*last, 1);
  KeyFile newcomer = file();
  ASSERT_EQ(newcomer.lock_mutex(/*waits=*/false), 0);
  std::thread thread([&] { last->release(); });
  EXPECT_TRUE(wait_until_one_is_blocked());
  ASSERT_EQ(newcomer.take_slot(1), 0);
  newcomer.unlock_mutex();
  thread.join();
  EXPECT_TRUE(is_there());
}

TEST_F(KeySlots, AFileOfAnotherKindIsLeftAlone) {
  place.write("db.slots", "something else entirely");
  const auto a = slot();
  const auto outcome = a->take({.waits = false});
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().message,
            place.file("db.slots") + " is not a file of keyway exec\ntry: --state DIR");
  EXPECT_EQ(place.read("db.slots"), "something else entirely");
  mkfifo(place.file("pipe.slots").c_str(), 0600);
  EXPECT_FALSE(slot("pipe")->take({.waits = false}));
  std::filesystem::create_symlink("/etc/hostname", place.file("link.slots"));
  EXPECT_FALSE(slot("link")->take({.waits = false}));
}

TEST_F(KeySlots, AThousandSlotsAreCountedRight) {
  std::vector<KeyFile> held;
  for (int i = 0; i < 1000; ++i) {
    held.push_back(file());
    // In an order that is neither ascending nor descending.
    ASSERT_EQ(held.back().take_slot((i * 7) % 1000), 0);
  }
  const auto seen = file().held_slots();
  EXPECT_EQ(seen.size(), 1000u);
  EXPECT_TRUE(std::ranges::is_sorted(seen));
  held.erase(held.begin() + 3);  // slot 21
  const auto a = slot();
  EXPECT_EQ(take(*a, 1000), Kind::kTaken);
  EXPECT_EQ(a->number(), 21);
}

}  // namespace
}  // namespace keyway::exec
