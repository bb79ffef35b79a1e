// Keyway's dispatcher under the workloads of its peers. Its keys are serial, whatever the limit.
#include <string>

#include "keyway/serial_dispatcher.h"
#include "peer_main.h"

namespace {

class KeywaySerial {
 public:
  static constexpr const char* kName = "keyway_serial";
  static constexpr bool kTasksMayBlock = true;

  explicit KeywaySerial(const bench::PeerSetup& setup)
      : dispatcher_({.workers = setup.threads, .queue_capacity = static_cast<int>(setup.tasks)}) {}

  template <class Task>
  void submit(const std::string& key, std::size_t /*index*/, Task task) {
    if (!dispatcher_.post(key, task)) bench::fail("a task was rejected");
  }

  void round_trip(const std::string& key) {
    if (!dispatcher_.run(key, [] { return 1; })) bench::fail("no result");
  }

 private:
  keyway::SerialDispatcher dispatcher_;
};

}  // namespace

int main(int argc, char** argv) { return bench::peer_main<KeywaySerial>(argc, argv); }
