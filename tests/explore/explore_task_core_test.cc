// TaskCore: a runner that publishes, while other threads wait, leave a continuation, take the result and release.
//
// Requirements: a thread that sees that the task is done sees its result; an accepted continuation is called once, a
// refused one never; the last reference frees the task, once.
#include <memory>
#include <new>
#include <stop_token>

#include <gtest/gtest.h>

#include "explore/explorations.h"
#include "keyway/detail/block_pool.h"
#include "keyway/detail/task_core.h"
#include "runtime/blocking.h"

namespace keyway::explore {
namespace {

using keyway::detail::Continuation;
using keyway::detail::TaskCore;
using keyway::detail::TaskOperations;
using keyway::detail::TaskOwner;

class CoreScenario : public Scenario {
 protected:
  class Core final : public TaskCore {
   public:
    static Core& make(CoreScenario& scenario, std::uint32_t references) {
      void* block = keyway::detail::allocate_block(block_bytes(kOperations, 4));
      return *new (block) Core(scenario, references);
    }

   private:
    // A task only keeps a reference to its owner, and none of these tasks asks for it.
    Core(CoreScenario& scenario, std::uint32_t references)
        : TaskCore(kOperations, reinterpret_cast<TaskOwner&>(scenario.no_owner_), references, "key",
                   "1"),
          scenario_(scenario) {}
    static void destroy(TaskCore& core, TaskStatus status) {
      CoreScenario& scenario = static_cast<Core&>(core).scenario_;
      require(status == TaskStatus::kSuccess, "not the published status");
      require(++scenario.freed_ == 1, "freed twice");
      scenario.result_.read();
    }
    static constexpr TaskOperations kOperations{.size_bytes = 128, .destroy = &destroy};

    CoreScenario& scenario_;
  };

  explicit CoreScenario(std::uint32_t references) : core_(Core::make(*this, references)) {}

  void publish() {
    result_.write(42);
    core_.publish(TaskStatus::kSuccess, TimePoint(std::chrono::seconds(7)));
  }
  void see_result() {
    require(core_.done(), "not done");
    require(core_.status() == TaskStatus::kSuccess, "not the published status");
    require(core_.ended() == TimePoint(std::chrono::seconds(7)), "not the published end");
    require(result_.read() == 42, "a stale result");
  }
  void check() override { require(freed_ == 1, "never freed"); }

  TaskCore& core_;

 private:
  alignas(16) std::byte no_owner_[64] = {};
  int freed_ = 0;
  Data<int> result_;
};

class PublishAgainstSleep final : public CoreScenario {
 public:
  PublishAgainstSleep() : CoreScenario(2) {}
  void run(int thread) override {
    if (thread == 0) return publish();
    require(block(core_) == WaitEnd::kDone, "woken before the end");
    see_result();
    core_.release();
  }
};
TEST(ExploreTaskCore, PublishAgainstSleep) { expect_holds<PublishAgainstSleep>("TaskCore"); }

class PublishAgainstContinuation final : public CoreScenario, Continuation {
 public:
  PublishAgainstContinuation() : CoreScenario(2) {}
  void run(int thread) override {
    if (thread == 0) return publish();
    accepted_ = core_.set_continuation(*this);
    if (accepted_) return;
    see_result();
    core_.release();
  }
  void check() override {
    CoreScenario::check();
    require(told_ == (accepted_ ? 1 : 0), "told too often, or never");
  }

 private:
  void task_done() noexcept override {
    ++told_;
    see_result();
    core_.release();
  }
  bool accepted_ = false;
  int told_ = 0;
};
TEST(ExploreTaskCore, PublishAgainstContinuation) {
  expect_holds<PublishAgainstContinuation>("TaskCore");
}

// A waiter that gives up takes its continuation back, or is told: one of the two.
class GiveUpAgainstPublish final : public CoreScenario, Continuation {
 public:
  GiveUpAgainstPublish() : CoreScenario(2) {}
  void run(int thread) override {
    if (thread == 0) return publish();
    const bool accepted = core_.set_continuation(*this);
    if (!accepted || core_.remove_continuation()) ++ends_;
    core_.release();  // a waiter that may give up keeps its handle until then
  }
  void check() override {
    CoreScenario::check();
    require(ends_ == 1, "the wait ended twice, or never");
  }

 private:
  void task_done() noexcept override { ++ends_; }
  int ends_ = 0;
};
TEST(ExploreTaskCore, GiveUpAgainstPublish) { expect_holds<GiveUpAgainstPublish>("TaskCore"); }

// Of two coroutines that await the task, at most one becomes its continuation, and is told.
class TwoClaims final : public CoreScenario {
 public:
  TwoClaims() : CoreScenario(3) {}
  void run(int thread) override {
    if (thread == 0) return publish();
    Claimant& claimant = claimants_[thread - 1];
    claimant.claim = core_.claim_continuation();
    if (claimant.claim == TaskCore::Claim::kClaimed) {
      claimant.accepted = core_.set_continuation(claimant);
      if (claimant.accepted) return;
    }
    if (claimant.claim != TaskCore::Claim::kClaimedByAnother) see_result();
    core_.release();
  }
  void check() override {
    CoreScenario::check();
    int claimed = 0;
    int refused = 0;
    for (const Claimant& claimant : claimants_) {
      claimed += claimant.claim == TaskCore::Claim::kClaimed ? 1 : 0;
      refused += claimant.claim == TaskCore::Claim::kClaimedByAnother ? 1 : 0;
      require(claimant.told == (claimant.accepted ? 1 : 0), "told too often, or never");
    }
    require(claimed <= 1, "claimed twice");
    require(refused <= claimed, "refused, but not claimed by another");
  }

 private:
  struct Claimant final : Continuation {
    explicit Claimant(TwoClaims& of) : scenario(of) {}
    void task_done() noexcept override {
      ++told;
      scenario.see_result();
      scenario.core_.release();
    }
    TwoClaims& scenario;
    TaskCore::Claim claim{};
    bool accepted = false;
    int told = 0;
  };
  Claimant claimants_[2] = {Claimant(*this), Claimant(*this)};
};
TEST(ExploreTaskCore, TwoClaims) { expect_holds<TwoClaims>("TaskCore", {.threads = 3}); }

class ManyReferences final : public CoreScenario {
 public:
  ManyReferences() : CoreScenario(3) {}
  void run(int thread) override {
    if (thread == 0) return publish();
    if (thread == 1) {
      core_.retain();
      if (core_.done()) see_result();
      core_.release();
    } else {
      require(block(core_) == WaitEnd::kDone, "woken before the end");
      takes_ += core_.take_result() ? 1 : 0;
      see_result();
    }
    core_.release();
  }
  void check() override {
    CoreScenario::check();
    require(takes_ == 1, "the result was not given out once");
  }

 private:
  int takes_ = 0;
};
TEST(ExploreTaskCore, ReferencesThatComeAndGo) {
  expect_holds<ManyReferences>("TaskCore", {.threads = 3});
}

// A stop request ends the sleep.
class StopAgainstSleep final : public CoreScenario {
 public:
  StopAgainstSleep() : CoreScenario(3) {}
  void run(int thread) override {
    if (thread == 0) {
      stopped_.wait();
      return publish();
    }
    if (thread == 1) {
      // The standard library waits for a stop callback that runs in another thread.
      const Uninterrupted callbacks;
      stop_.request_stop();
    } else {
      const bool done = block(core_, {.stop = stop_.get_token()}) == WaitEnd::kDone;
      if (!done) require(stop_.stop_requested(), "woken without a reason");
      stopped_.set();
    }
    core_.release();
  }

 private:
  struct Event {
    void set() {
      is_set = true;
      changed();
    }
    void wait() const {
      wait_until("the end of the sleep", [this] { return is_set; });
    }
    bool is_set = false;
  };
  std::stop_source stop_;
  Event stopped_;
};
TEST(ExploreTaskCore, StopAgainstSleep) {
  expect_holds<StopAgainstSleep>("TaskCore", {.threads = 3});
}

}  // namespace
}  // namespace keyway::explore
