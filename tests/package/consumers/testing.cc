#include <keyway/task.h>
#include <keyway/testing/sim_scheduler.h>

namespace {

struct Alarm final : keyway::Timer {
  void fire() override { has_fired = true; }
  bool has_fired = false;
};

}  // namespace

int main() {
  keyway::testing::SimScheduler sim(/*seed=*/7);
  Alarm alarm;
  const keyway::TimePoint begin = sim.now();
  sim.add_timer(alarm, begin + std::chrono::minutes(10));
  sim.run_until_idle();
  return alarm.has_fired && sim.now() - begin == std::chrono::minutes(10) ? 0 : 1;
}
