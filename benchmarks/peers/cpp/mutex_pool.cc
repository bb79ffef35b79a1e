// Peer: what one would write first. One mutex, one condition variable, a deque per key, and as
// many threads as processors.
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "peer_main.h"

namespace {

class MutexPool {
 public:
  static constexpr const char* kName = "mutex_pool";
  static constexpr bool kTasksMayBlock = true;

  explicit MutexPool(const bench::PeerSetup& setup)
      : limit_(setup.limit), erase_idle_lanes_(setup.erase_idle_keys) {
    for (int i = 0; i < setup.threads; ++i) threads_.emplace_back([this] { work(); });
  }

  ~MutexPool() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  template <class Task>
  void submit(const std::string& key, std::size_t /*index*/, Task task) {
    {
      std::lock_guard lock(mutex_);
      auto& entry = *lanes_.try_emplace(key).first;
      if (entry.second.running == limit_) {
        entry.second.waiting.emplace_back(std::move(task));
        return;
      }
      ++entry.second.running;
      ready_.push_back({&entry, std::move(task)});
    }
    wake_.notify_one();
  }

 private:
  using Job = std::function<void()>;
  struct Lane {
    std::deque<Job> waiting;
    int running = 0;
  };
  using Lanes = std::unordered_map<std::string, Lane>;
  struct ReadyJob {
    Lanes::value_type* lane;
    Job job;
  };

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [this] { return stopping_ || !ready_.empty(); });
      if (ready_.empty()) return;
      ReadyJob next = std::move(ready_.front());
      ready_.pop_front();
      lock.unlock();
      next.job();
      lock.lock();
      give_slot_back(*next.lane);
    }
  }

  // REQUIRES: mutex_ is held. The caller looks at ready_ next, so nobody has to be woken.
  void give_slot_back(Lanes::value_type& entry) {
    Lane& lane = entry.second;
    if (!lane.waiting.empty()) {
      ready_.push_back({&entry, std::move(lane.waiting.front())});
      lane.waiting.pop_front();
      return;
    }
    --lane.running;
    if (erase_idle_lanes_ && lane.running == 0) lanes_.erase(entry.first);
  }

  const int limit_;
  const bool erase_idle_lanes_;
  std::mutex mutex_;
  std::condition_variable wake_;

  // Guarded by mutex_.
  Lanes lanes_;
  std::deque<ReadyJob> ready_;
  bool stopping_ = false;

  std::vector<std::thread> threads_;
};

}  // namespace

int main(int argc, char** argv) { return bench::peer_main<MutexPool>(argc, argv); }
