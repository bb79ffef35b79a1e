// SerialDispatcher through its public headers, and the sleep of its sticky workers: no work runs beside other work of its
// key, no work is lost, and no item waits for a worker that sleeps.
#include <array>
#include <chrono>
#include <optional>

#include <gtest/gtest.h>

#include "explore/explorations.h"
#include "explore/explored_scheduler.h"
#include "keyway/serial_dispatcher.h"
#include "lanes/ready_queue.h"
#include "serial/serial_load.h"
#include "serial/worker_sleep.h"

namespace keyway::explore {
namespace {

constexpr ScenarioOptions kThreeThreads{.threads = 3};

// ---- places in the queues

// The only place is given back, and two want it: one of them gets it.
class APlaceThatComesFree final : public Scenario {
 public:
  APlaceThatComesFree() { require(load_.take_place(), "an empty queue has no place"); }
  void run(int thread) override {
    if (thread == 0) load_.give_back_place();
    if (load_.take_place()) ++taken_;
  }
  void check() override {
    require(taken_ <= 1, "two have the only place");
    require(taken_ == 1, "a free place was refused");
  }

 private:
  SerialLoad load_{1, nullptr};
  int taken_ = 0;
};
TEST(ExploreSerial, APlaceThatComesFree) { expect_holds<APlaceThatComesFree>("SerialLoad"); }

// ---- a sticky worker

class WorkerScenario : public Scenario {
 protected:
  class Item final : public Runnable {
   public:
    void run(Turn&) override {
      ++runs;
      changed();
    }
    int runs = 0;
  };

  void post(Item& item) {
    ready_.push(item);
    sleep_.wake();
  }
  void stop() { sleep_.stop(); }
  // Until it is stopped, as the thread of a WorkerThread.
  void work() {
    do {
      Turn turn;
      while (Runnable* item = ready_.pop()) item->run(turn);
    } while (sleep_.wait_for_work([this] { return !ready_.empty(); }, clock_));
  }

  // A worker that sleeps wakes by itself after a while, to give memory back. Work must not wait for that.
  static void require_no_time_passed() {
    require(now() == TimePoint(std::chrono::hours(1)),  // the time of the beginning
            "an item waited until its worker's sleep timed out");
  }

 private:
  ExploredScheduler clock_;
  ReadyQueue ready_;
  WorkerSleep sleep_;
};

// Thread 0 is the worker; each of the others posts, and the last one stops it when all has run: a stop wakes it, too.
class PostsAgainstSleep final : public WorkerScenario {
 public:
  void run(int thread) override {
    if (thread == 0) return work();
    post(items_[static_cast<std::size_t>(thread - 1)]);
    if (++posted_ < 2) return;
    wait_until("both items", [this] { return items_[0].runs + items_[1].runs == 2; });
    stop();
  }
  void check() override {
    for (const Item& item : items_) require(item.runs == 1, "an item was lost, or ran twice");
    require_no_time_passed();
  }

 private:
  std::array<Item, 2> items_;
  int posted_ = 0;
};
TEST(ExploreSerial, PostsAgainstAWorkerThatGoesToSleep) {
  expect_holds<PostsAgainstSleep>("WorkerSleep", kThreeThreads);
}

// The worker may have slept and woken in between.
class PostsOneAfterAnother final : public WorkerScenario {
 public:
  void run(int thread) override {
    if (thread == 0) return work();
    for (Item& item : items_) {
      post(item);
      wait_until("an item", [&] { return item.runs > 0; });
    }
    stop();
  }
  void check() override {
    require(items_[0].runs == 1 && items_[1].runs == 1, "an item was lost, or ran twice");
    require_no_time_passed();
  }

 private:
  std::array<Item, 2> items_;
};
TEST(ExploreSerial, PostsOneAfterAnother) { expect_holds<PostsOneAfterAnother>("WorkerSleep"); }

// ---- the dispatcher

class SerialScenario : public Scenario {
 public:
  void run(int thread) final {
    if (thread >= clients_) return scheduler_.work();
    client(thread);
    if (++clients_done_ < clients_) return;
    dispatcher_.reset();
    scheduler_.stop();
  }

 protected:
  SerialScenario(int clients, const SerialOptions& options) : clients_(clients) {
    dispatcher_.emplace(options, scheduler_);
  }
  virtual void client(int number) = 0;
  SerialDispatcher& dispatcher() { return *dispatcher_; }

  // Work of one key, which excludes all other.
  void run_alone() {
    require(!inside_, "two at once in a lane");
    inside_ = true;
    yield();
    inside_ = false;
    ++ran_;
  }
  int ran_ = 0;

 private:
  const int clients_;
  int clients_done_ = 0;
  bool inside_ = false;
  ExploredScheduler scheduler_;
  std::optional<SerialDispatcher> dispatcher_;
};

class CallsOfOneKey final : public SerialScenario {
 public:
  CallsOfOneKey() : SerialScenario(2, {.workers = 2}) {}
  void client(int) override {
    require(dispatcher().post("k", [this] { run_alone(); }).ok(), "a post was refused");
    const Result<int> number = dispatcher().run("k", [this] {
      run_alone();
      return ran_;
    });
    require(number.ok() && *number >= 2, "work overtook work of its own client");
  }
  void check() override { require(ran_ == 4, "work was lost, or ran twice"); }
};
TEST(ExploreSerial, CallsOfOneKey) {
  expect_holds<CallsOfOneKey>("SerialDispatcher", kThreeThreads);
}

// One place in all queues together: a call that is refused has not run, and its place is free again.
class OnePlaceInAll final : public SerialScenario {
 public:
  OnePlaceInAll() : SerialScenario(2, {.workers = 1, .total_capacity = 1}) {}
  void client(int number) override {
    const Result<void> posted = dispatcher().post(number == 0 ? "a" : "b", [this] { run_alone(); });
    accepted_ += posted.ok() ? 1 : 0;
  }
  void check() override {
    require(accepted_ >= 1, "both were refused");
    require(ran_ == accepted_, "refused work has run, or accepted work has not");
  }

 private:
  int accepted_ = 0;
};
TEST(ExploreSerial, OnePlaceInAllQueues) {
  expect_holds<OnePlaceInAll>("SerialDispatcher", kThreeThreads);
}

// A call that gives an error has not run and never will; one that gives none has ended.
class CallsAgainstShutdown final : public SerialScenario {
 public:
  CallsAgainstShutdown() : SerialScenario(2, {.workers = 1}) {}
  void client(int number) override {
    if (number == 1) {
      dispatcher().shutdown(std::chrono::hours(1));
      return;
    }
    for (int i = 0; i < 2; ++i) {
      const int before = ran_;
      const bool ok = dispatcher().run("k", [this] { run_alone(); }).ok();
      require(ran_ == before + (ok ? 1 : 0), "the result does not say what happened");
    }
  }
};
TEST(ExploreSerial, CallsAgainstShutdown) {
  expect_holds<CallsAgainstShutdown>("SerialDispatcher", kThreeThreads);
}

}  // namespace
}  // namespace keyway::explore
