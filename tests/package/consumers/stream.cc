#include <atomic>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <keyway/pipeline.h>

namespace {

// One partition with ten records.
class Numbers final : public keyway::Source {
 public:
  std::string name() const override { return "numbers"; }
  keyway::Result<void> open(std::function<void()>) override { return {}; }
  keyway::Result<keyway::Polled> poll(std::vector<keyway::Record>& records,
                                      std::vector<keyway::PartitionEvent>& events,
                                      std::size_t) override {
    if (!is_assigned_) {
      is_assigned_ = true;
      events.push_back({.kind = keyway::PartitionEvent::kAssigned});
      return keyway::Polled{.state = keyway::Polled::kMore};
    }
    for (keyway::Offset i = 0; i < 10; ++i)
      records.push_back({.offset = i, .end = i + 1, .key = "key"});
    return keyway::Polled{.state = keyway::Polled::kEnd};
  }
  keyway::Result<void> commit(std::span<const keyway::Progress> progress) override {
    for (const keyway::Progress& one : progress) watermark = one.watermark;
    return {};
  }
  void pause(keyway::PartitionId) override {}
  void resume(keyway::PartitionId) override {}

  keyway::Offset watermark = 0;

 private:
  bool is_assigned_ = false;
};

}  // namespace

int main() {
  Numbers source;
  std::atomic<int> handled = 0;
  keyway::Pipeline pipeline(source, {.concurrency = 4},
                            [&handled](const keyway::Record&) { ++handled; });
  return pipeline.run_until() && handled == 10 && source.watermark == 10 ? 0 : 1;
}
