// Peer: oneTBB. A task that gets a slot of its key is enqueued in a task_arena; the limiter per
// key is written here, since TBB has none: a spin lock, a count and a deque. Keys are kept.
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include <oneapi/tbb/concurrent_hash_map.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/spin_mutex.h>
#include <oneapi/tbb/task_arena.h>

#include "peer_main.h"

namespace {

namespace tbb = oneapi::tbb;

class TbbArena {
 public:
  static constexpr const char* kName = "tbb_arena";
  static constexpr bool kTasksMayBlock = false;

  // One thread more than workers: TBB counts the submitting thread, which never works here.
  explicit TbbArena(const bench::PeerSetup& setup)
      : limit_(setup.limit),
        parallelism_(tbb::global_control::max_allowed_parallelism,
                     static_cast<std::size_t>(setup.threads) + 1),
        arena_(setup.threads, /*reserved_for_masters=*/0) {}

  // The last task has ended, but its worker may not have left the lane yet. A task_group would
  // wait for that too, at the price of one more shared counter per task.
  ~TbbArena() {
    for (auto& [key, lane] : lanes_) {
      while (!is_idle(*lane)) std::this_thread::yield();
    }
  }

  template <class Task>
  void submit(const std::string& key, std::size_t /*index*/, Task task) {
    Lane& lane = lane_of(key);
    {
      tbb::spin_mutex::scoped_lock lock(lane.mutex);
      if (lane.running == limit_) {
        lane.waiting.emplace_back(std::move(task));
        return;
      }
      ++lane.running;
    }
    enqueue(lane, std::move(task));
  }

 private:
  using Job = std::function<void()>;
  struct Lane {
    tbb::spin_mutex mutex;
    std::deque<Job> waiting;
    int running = 0;
  };
  using Lanes = tbb::concurrent_hash_map<std::string, std::unique_ptr<Lane>>;

  static constexpr int kJobsInARow = 64;

  static bool is_idle(Lane& lane) {
    tbb::spin_mutex::scoped_lock lock(lane.mutex);
    return lane.running == 0;
  }

  Lane& lane_of(const std::string& key) {
    {
      Lanes::const_accessor found;
      if (lanes_.find(found, key)) return *found->second;
    }
    Lanes::accessor made;
    if (lanes_.insert(made, key)) made->second = std::make_unique<Lane>();
    return *made->second;
  }

  void enqueue(Lane& lane, Job job) {
    arena_.enqueue([this, &lane, job = std::move(job)] { run_from(lane, job); });
  }

  // Runs on with the lane's waiters, up to a bound that lets other lanes have their turn.
  void run_from(Lane& lane, Job job) {
    for (int done = 1;; ++done) {
      job();
      {
        tbb::spin_mutex::scoped_lock lock(lane.mutex);
        if (lane.waiting.empty()) {
          --lane.running;
          return;
        }
        job = std::move(lane.waiting.front());
        lane.waiting.pop_front();
      }
      if (done == kJobsInARow) {
        enqueue(lane, std::move(job));
        return;
      }
    }
  }

  const int limit_;
  tbb::global_control parallelism_;
  tbb::task_arena arena_;
  Lanes lanes_;
};

}  // namespace

int main(int argc, char** argv) { return bench::peer_main<TbbArena>(argc, argv); }
