// Peer: oneTBB flow graph, a function_node per key whose concurrency is the limit. The node
// queues what waits. Nodes are kept: one cannot be taken out while the graph runs.
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <oneapi/tbb/concurrent_hash_map.h>
#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_arena.h>

#include "peer_main.h"

namespace {

namespace tbb = oneapi::tbb;

class TbbFlow {
 public:
  static constexpr const char* kName = "tbb_flow";
  static constexpr bool kTasksMayBlock = false;

  // One thread more than workers: TBB counts the submitting thread, which never works here.
  // The graph runs in the arena it is made in.
  explicit TbbFlow(const bench::PeerSetup& setup)
      : limit_(static_cast<std::size_t>(setup.limit)),
        parallelism_(tbb::global_control::max_allowed_parallelism,
                     static_cast<std::size_t>(setup.threads) + 1),
        arena_(setup.threads, /*reserved_for_masters=*/0) {
    arena_.execute([this] { graph_ = std::make_unique<tbb::flow::graph>(); });
  }

  ~TbbFlow() { graph_->wait_for_all(); }

  template <class Task>
  void submit(const std::string& key, std::size_t /*index*/, Task task) {
    node_of(key).try_put(std::move(task));
  }

 private:
  using Job = std::function<void()>;
  using Node = tbb::flow::function_node<Job, tbb::flow::continue_msg, tbb::flow::queueing>;
  using Nodes = tbb::concurrent_hash_map<std::string, std::unique_ptr<Node>>;

  Node& node_of(const std::string& key) {
    {
      Nodes::const_accessor found;
      if (nodes_.find(found, key)) return *found->second;
    }
    Nodes::accessor made;
    if (nodes_.insert(made, key)) {
      made->second = std::make_unique<Node>(*graph_, limit_, [](const Job& job) {
        job();
        return tbb::flow::continue_msg();
      });
    }
    return *made->second;
  }

  const std::size_t limit_;
  tbb::global_control parallelism_;
  tbb::task_arena arena_;
  std::unique_ptr<tbb::flow::graph> graph_;
  Nodes nodes_;  // declared after the graph: nodes go first
};

}  // namespace

int main(int argc, char** argv) { return bench::peer_main<TbbFlow>(argc, argv); }
