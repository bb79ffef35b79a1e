// A whole GroupExecutor whose scheduler's threads are explored.
//
// The first threads are clients, and run client(); the others are the scheduler's. When the last client has
// returned the scheduler's threads end, and then the executor is destroyed: or at once, if the scenario says so.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "explore/explorations.h"
#include "explore/explored_scheduler.h"
#include "keyway/group_executor.h"

namespace keyway::explore {

class GroupScenario : public Scenario {
 public:
  void run(int thread) final {
    if (thread >= clients_) return scheduler_.work();
    client(thread);
    if (++clients_done_ < clients_) return;
    finish();
    if (destroys_at_once_) executor_.reset();
    scheduler_.stop();
  }

 protected:
  GroupScenario(int clients, GroupPolicy policy,
                std::size_t max_threads = Scheduler::kUnlimitedThreads)
      : clients_(clients), scheduler_(max_threads) {
    executor_.emplace(std::move(policy), scheduler_);
  }

  virtual void client(int number) = 0;
  // By the last client, while the executor is still there.
  virtual void finish() {}

  bool destroys_at_once_ = false;

  GroupExecutor& executor() { return *executor_; }
  ExploredScheduler& scheduler() { return scheduler_; }

  // How many are inside of something, never more than `limit`.
  class Gauge {
   public:
    class Inside {
     public:
      Inside(Gauge& gauge, int limit) : gauge_(gauge) {
        require(++gauge_.inside_ <= limit, "more tasks run than the limit allows");
        yield();
      }
      ~Inside() { --gauge_.inside_; }
      Inside(const Inside&) = delete;
      Inside& operator=(const Inside&) = delete;

     private:
      Gauge& gauge_;
    };

   private:
    int inside_ = 0;
  };

  // Something that happens once, for which a client waits; not through the library.
  class Event {
   public:
    void set() {
      is_set_ = true;
      changed();
    }
    void wait(const char* what) const {
      wait_until(what, [this] { return is_set_; });
    }
    bool is_set() const { return is_set_; }

   private:
    bool is_set_ = false;
  };

 private:
  const int clients_;
  int clients_done_ = 0;
  ExploredScheduler scheduler_;
  std::optional<GroupExecutor> executor_;
};

}  // namespace keyway::explore
