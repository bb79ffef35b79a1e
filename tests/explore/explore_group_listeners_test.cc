// User code that the executor calls when a task starts or ends: it may wait, submit, cancel and shut down.
#include <coroutine>
#include <exception>
#include <memory>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "explore/group_scenario.h"
#include "support/foreign_coroutine.h"

namespace keyway::explore {
namespace {

constexpr ScenarioOptions kThreeThreads{.threads = 3};

class ListenerScenario : public GroupScenario {
 protected:
  class Listener final : public TaskLifecycleListener {
   public:
    void on_started(std::string_view, std::string_view id) override {
      if (scenario != nullptr) scenario->started(id);
    }
    void on_completed(std::string_view, std::string_view id, const TaskOutcome&) override {
      if (scenario != nullptr) scenario->completed(id);
    }
    ListenerScenario* scenario = nullptr;
  };

  ListenerScenario() : ListenerScenario(std::make_shared<Listener>()) {}
  ~ListenerScenario() override = default;
  virtual void started(std::string_view) {}
  virtual void completed(std::string_view) {}

 private:
  explicit ListenerScenario(const std::shared_ptr<Listener>& listener)
      : GroupScenario(1, {.listener = listener}) {
    listener->scenario = this;
  }
};

// b stands behind a in a serial group; when a has ended, its listener waits for b.
class CompletedWaitsForTheNext final : public ListenerScenario {
 public:
  void client(int) override {
    {
      const Uninterrupted both;
      a_ = executor().submit("g", "a", [] {});
      b_ = executor().submit("g", "b", [] {});
    }
    (void)a_.join();
    all_over_.wait("the end of b");
  }

 private:
  void completed(std::string_view id) override {
    if (id == "a") {
      (void)b_.join();
      all_over_.set();
    }
  }
  TaskHandle<void> a_;
  TaskHandle<void> b_;
  Event all_over_;
};
TEST(ExploreGroupListeners, AListenerOfCompletionWaitsForTheNextTask) {
  expect_holds<CompletedWaitsForTheNext>("GroupExecutor", kThreeThreads);
}

// The same with another task between them.
class CompletedSubmitsAndWaits final : public ListenerScenario {
 public:
  void client(int) override {
    {
      const Uninterrupted both;
      a_ = executor().submit("g", "a", [] {});
      b_ = executor().submit("g", "b", [] {});
    }
    (void)a_.join();
    (void)b_.join();
    all_over_.wait("the end of c");
  }

 private:
  void completed(std::string_view id) override {
    if (id != "a") return;
    (void)executor().submit("g", "c", [] {}).join();
    all_over_.set();
  }
  TaskHandle<void> a_;
  TaskHandle<void> b_;
  Event all_over_;
};
TEST(ExploreGroupListeners, AListenerOfCompletionSubmitsAndWaits) {
  expect_holds<CompletedSubmitsAndWaits>("GroupExecutor", kThreeThreads);
}

class CompletedDrainsAnotherGroup final : public ListenerScenario {
 public:
  void client(int) override {
    a_ = executor().submit("g", "a", [] {});
    b_ = executor().submit("h", "b", [] {});
    (void)a_.join();
    (void)b_.join();
    all_over_.wait("the drain");
  }

 private:
  void completed(std::string_view id) override {
    if (id != "a") return;
    executor().drain_group("h");
    all_over_.set();
  }
  TaskHandle<void> a_;
  TaskHandle<void> b_;
  Event all_over_;
};
TEST(ExploreGroupListeners, AListenerOfCompletionDrainsAnotherGroup) {
  expect_holds<CompletedDrainsAnotherGroup>("GroupExecutor", kThreeThreads);
}

// On one thread: b cannot have begun while the listener of a runs.
class CompletedCancelsTheNext final : public ListenerScenario {
 public:
  void client(int) override {
    {
      const Uninterrupted both;
      a_ = executor().submit("g", "a", [] {});
      b_ = executor().submit("g", "b", [this] { b_ran_ = true; });
    }
    (void)a_.join();
    (void)b_.join();
    all_over_.wait("the end of a");
    require(cancelled_ && !b_ran_, "a task that had not begun was not cancelled");
  }

 private:
  void completed(std::string_view id) override {
    if (id != "a") return;
    cancelled_ = b_.cancel();
    all_over_.set();
  }
  TaskHandle<void> a_;
  TaskHandle<void> b_;
  bool cancelled_ = false;
  bool b_ran_ = false;
  Event all_over_;
};
TEST(ExploreGroupListeners, AListenerOfCompletionCancelsTheNextTask) {
  expect_holds<CompletedCancelsTheNext>("GroupExecutor");
}

// On one thread: nothing begins after shutdown().
class CompletedShutsDown final : public ListenerScenario {
 public:
  void client(int) override {
    std::vector<TaskHandle<void>> handles;
    {
      const Uninterrupted all;
      for (const char* id : {"1", "2", "3"}) {
        handles.push_back(executor().submit(
            "g", id, [this] { require(!shut_down_, "a task began after shutdown()"); }));
      }
    }
    for (auto& handle : handles) (void)handle.join();
  }

 private:
  void completed(std::string_view id) override {
    if (id != "2") return;
    executor().shutdown();
    shut_down_ = true;
  }
  bool shut_down_ = false;
};
TEST(ExploreGroupListeners, AListenerOfCompletionShutsDown) {
  expect_holds<CompletedShutsDown>("GroupExecutor");
}

// A coroutine that is not the library's goes on on the thread that ended the task it awaited.
class ForeignCoroutineWaitsForTheNext final : public GroupScenario {
 public:
  ForeignCoroutineWaitsForTheNext() : GroupScenario(1, {}) {}
  void client(int) override {
    {
      const Uninterrupted both;
      a_ = executor().submit("g", "a", [] {});
      b_ = executor().submit("g", "b", [] {});
    }
    await_both();
    all_over_.wait("the end of b");
  }

 private:
  ForeignCoroutine await_both() {
    (void)co_await a_;
    (void)b_.join();
    all_over_.set();
  }
  TaskHandle<void> a_;
  TaskHandle<void> b_;
  Event all_over_;
};
TEST(ExploreGroupListeners, AForeignCoroutineWaitsForTheNextTask) {
  expect_holds<ForeignCoroutineWaitsForTheNext>("GroupExecutor", kThreeThreads);
}

class StartedWaitsForAnother final : public ListenerScenario {
 public:
  void client(int) override {
    a_ = executor().submit("g", "a", [] {});
    (void)a_.join();
  }

 private:
  void started(std::string_view id) override {
    if (id == "a") (void)executor().submit("h", "x", [] {}).join();
  }
  TaskHandle<void> a_;
};
TEST(ExploreGroupListeners, AListenerOfAStartWaitsForAnotherGroup) {
  expect_holds<StartedWaitsForAnother>("GroupExecutor", kThreeThreads);
}

}  // namespace
}  // namespace keyway::explore
