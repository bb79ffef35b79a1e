// Keyway under the same workloads as its peers, in three ways:
//   keyway            submit(): every handle is kept until the end of the run, then joined
//   keyway_post       post(): fire and forget, as the peers do it
//   keyway_coroutine  w4 only: tasks are coroutines, and sleep without a thread
#include <string>
#include <vector>

#include "keyway/group_executor.h"
#include "peer_main.h"

namespace {

// The pool has its usual size and grows when threads block, except where a gate holds them.
keyway::ThreadPoolOptions pool_options(const bench::PeerSetup& setup) {
  keyway::ThreadPoolOptions options;
  if (setup.fixed_threads) options.max_threads = static_cast<unsigned>(setup.threads);
  return options;
}

keyway::GroupPolicy policy_of(const bench::PeerSetup& setup) {
  keyway::GroupPolicy policy;
  policy.default_group.max_concurrency = setup.limit;
  return policy;
}

class KeywayPost {
 public:
  static constexpr const char* kName = "keyway_post";
  static constexpr bool kTasksMayBlock = true;

  explicit KeywayPost(const bench::PeerSetup& setup)
      : executor_(policy_of(setup), pool_options(setup)) {}

  template <class Task>
  void submit(const std::string& key, std::size_t /*index*/, Task task) {
    if (!executor_.post(key, task)) bench::fail("a task was rejected");
  }

 private:
  keyway::GroupExecutor executor_;
};

class KeywaySubmit {
 public:
  static constexpr const char* kName = "keyway";
  static constexpr bool kTasksMayBlock = true;

  explicit KeywaySubmit(const bench::PeerSetup& setup)
      : handles_(setup.tasks), executor_(policy_of(setup), pool_options(setup)) {}

  template <class Task>
  void submit(const std::string& key, std::size_t index, Task task) {
    handles_[index] = executor_.submit(key, "task", [task] {
      task();
      return 1;
    });
  }

  void round_trip(const std::string& key) {
    if (!executor_.submit(key, "task", [] { return 1; }).join().ok()) bench::fail("no result");
  }

  void hold(bench::Gate& gate) {
    for (int i = 0; i < gate.count; ++i) {
      const std::string key = "gate-" + std::to_string(i);
      if (!executor_.post(key, [&gate] { gate.pass(); })) bench::fail("a gate was rejected");
    }
  }

  // Joins every handle and lets it go.
  void finish() {
    for (keyway::TaskHandle<int>& handle : handles_) {
      if (!handle.join().ok()) bench::fail("a task did not succeed");
      handle = {};
    }
  }

 protected:
  std::vector<keyway::TaskHandle<int>> handles_;
  keyway::GroupExecutor executor_;
};

class KeywayCoroutine : public KeywaySubmit {
 public:
  static constexpr const char* kName = "keyway_coroutine";

  using KeywaySubmit::KeywaySubmit;

  template <class Task>
  void submit_sleep(const std::string& key, std::size_t index, Task task) {
    handles_[index] = executor_.submit(key, "task", [task]() -> keyway::Task<int> {
      task.begin();
      co_await keyway::sleep_for(bench::kSleep);
      task.end();
      co_return 1;
    });
  }
};

}  // namespace

int main(int argc, char** argv) {
  const bench::Options options = bench::parse_options(argc, argv);
  if (options.peer.empty() || options.peer == KeywaySubmit::kName) {
    return bench::run_peer<KeywaySubmit>(options);
  }
  if (options.peer == KeywayPost::kName) return bench::run_peer<KeywayPost>(options);
  if (options.peer == KeywayCoroutine::kName && options.workload == "w4") {
    return bench::run_peer<KeywayCoroutine>(options);
  }
  bench::fail_usage("no such peer in " + options.workload + ": " + options.peer);
}
