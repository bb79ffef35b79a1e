// Peer: Boost.Asio, a strand per key on one io_context. A strand is serial, so a key of limit L
// has L strands that are used in turn (a slow task then delays those behind it on its strand).
// The keys stay in the map: Asio does not say when a strand is idle.
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>

#include "peer_main.h"

namespace {

namespace asio = boost::asio;

class AsioStrand {
 public:
  static constexpr const char* kName = "asio_strand";
  static constexpr bool kTasksMayBlock = true;

  explicit AsioStrand(const bench::PeerSetup& setup)
      : limit_(static_cast<std::size_t>(setup.limit)), context_(setup.threads) {
    for (int i = 0; i < setup.threads; ++i) threads_.emplace_back([this] { context_.run(); });
  }

  ~AsioStrand() {
    keep_running_.reset();
    for (std::thread& thread : threads_) thread.join();
  }

  template <class Task>
  void submit(const std::string& key, std::size_t /*index*/, Task task) {
    asio::post(strand_of(key), std::move(task));
  }

 private:
  using Strand = asio::strand<asio::io_context::executor_type>;
  struct Lane {
    std::vector<Strand> strands;
    std::size_t next = 0;
  };

  // The reference stays valid: a lane is never erased, and its strands never move.
  const Strand& strand_of(const std::string& key) {
    std::lock_guard lock(mutex_);
    Lane& lane = lanes_.try_emplace(key).first->second;
    if (lane.strands.size() < limit_) {
      lane.strands.reserve(limit_);
      return lane.strands.emplace_back(context_.get_executor());
    }
    if (++lane.next == limit_) lane.next = 0;
    return lane.strands[lane.next];
  }

  const std::size_t limit_;
  asio::io_context context_;
  asio::executor_work_guard<asio::io_context::executor_type> keep_running_{context_.get_executor()};
  std::mutex mutex_;
  std::unordered_map<std::string, Lane> lanes_;  // guarded by mutex_
  std::vector<std::thread> threads_;
};

}  // namespace

int main(int argc, char** argv) { return bench::peer_main<AsioStrand>(argc, argv); }
