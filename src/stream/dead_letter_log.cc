#include "base/mutex.h"
#include "keyway/dead_letter_file.h"
#include "stream/dead_letter_text.h"

namespace keyway {
namespace {

class DeadLetterLog final : public DeadLetters {
 public:
  using Write = std::function<Result<void>(std::string_view)>;

  explicit DeadLetterLog(Write write) : write_(std::move(write)) {}

  Result<void> store(const DeadLetter& letter) override {
    std::string line;
    append_poison_pill(line, letter);
    // The promise is that lines come one at a time: the user's code runs under this lock, and no other.
    MutexLock lock(mutex_);
    return write_(line);
  }

 private:
  const Write write_;
  Mutex<LockRank::kDeadLetterLog> mutex_;
};

}  // namespace

std::shared_ptr<DeadLetters> dead_letter_log(
    std::function<Result<void>(std::string_view line)> write) {
  return std::make_shared<DeadLetterLog>(std::move(write));
}

}  // namespace keyway
