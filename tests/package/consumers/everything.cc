#include <keyway/group_executor.h>
#include <keyway/sqlite_handled_ids.h>
#include <keyway/testing/sim_scheduler.h>

int main() {
  int unused = 0;  // does not compile if Keyway's own warnings reach this project

  keyway::testing::SimScheduler sim;
  keyway::GroupExecutor executor({.default_group = {.max_concurrency = 1}}, sim);
  auto handle = executor.submit("key", "task", [] { return 42; });
  sim.run_until_idle();
  return handle.join().value() == 42 ? 0 : 1;
}
