// All interleavings of the sleep protocol.
//
// Posters and workers are step machines that do what a poster and ThreadPool's workers do around
// IdleProtocol and ReadyQueue, one atomic operation per step. Every order of their steps is tried;
// a violation is reported with the steps that lead to it.
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/idle_protocol.h"

namespace keyway {
namespace {

constexpr int kNobody = -1;
constexpr int kLinked = -1;

enum class Pc {
  // posters
  kPush,  // the item is in sight of empty() from here,
  kLink,  // and in reach of pop() from here
  // whoever calls wake_if_needed()
  kWakeCount,
  kWakeLock,
  kWakeTake,
  kWakeToken,
  // workers
  kPop,
  kStopSearching,
  kLookForMore,
  kRun,
  kStartSearching,
  kSearch,
  kPark,
  kLastLook,
  kLeaveParked,
  kSleep,
  // for good
  kDone,
  kNeverEnds,
};

constexpr const char* kStepNames[] = {"pushes",
                                      "links what it pushed",
                                      "reads the counts",
                                      "locks the list",
                                      "takes a worker",
                                      "wakes it",
                                      "pops",
                                      "stops searching",
                                      "looks for more",
                                      "runs",
                                      "may search",
                                      "searches",
                                      "parks",
                                      "looks once more",
                                      "gets up",
                                      "wakes",
                                      "is done",
                                      "is blocked"};

struct Machine {
  Pc pc = Pc::kDone;
  Pc after_wake = Pc::kDone;
  bool searching = false;
  int items_left = 0;      // a poster's
  int wakes = kNobody;     // whom it is about to wake
  bool has_token = false;  // somebody woke it
  auto operator<=>(const Machine&) const = default;
};

struct State {
  IdleCounts counts{};
  std::vector<int> queue;   // per item: kLinked, or the poster that has yet to link it
  std::vector<int> parked;  // the parked list: the last is woken first
  int mutex_owner = kNobody;
  bool ticks = false;  // somebody asked the service thread to watch
  std::vector<Machine> machines;

  auto key() const {
    return std::tie(counts.threads, counts.parked, counts.searching, queue, parked, mutex_owner,
                    ticks, machines);
  }
  bool operator<(const State& other) const { return key() < other.key(); }
};

struct Scenario {
  int posters = 1;
  int items_each = 1;
  int workers = 1;
  bool items_end = true;  // else each of them waits for another one, for ever if it must
  bool sleeper_looks_again = true;
  bool poster_pushes_first = true;
};

class Explorer {
 public:
  explicit Explorer(Scenario scenario) : scenario_(scenario) {}

  // What is wrong in a state from which nothing moves, if there is such a state.
  std::optional<std::string> find_violation() {
    State start;
    for (int i = 0; i < scenario_.posters; ++i) {
      start.machines.push_back({.pc = first_of_poster(), .items_left = scenario_.items_each});
    }
    for (int i = 0; i < scenario_.workers; ++i) {
      apply(start, [](IdleProtocol& idle) { idle.thread_started(); });
      start.machines.push_back({.pc = Pc::kPop, .searching = true});
    }
    explore(start);
    return violation_;
  }
  std::size_t states() const { return seen_.size(); }
  // The steps that lead to the violation, one per line.
  const std::string& trace() const { return trace_; }

 private:
  Pc first_of_poster() const { return scenario_.poster_pushes_first ? Pc::kPush : Pc::kWakeCount; }

  struct Origin {
    const State* before;
    int who;
  };

  void explore(const State& start) {
    std::vector<const State*> open{&seen_.emplace(start, Origin{nullptr, kNobody}).first->first};
    while (!open.empty() && !violation_) {
      const State& state = *open.back();
      open.pop_back();
      bool moved = false;
      for (int who = 0; who < static_cast<int>(state.machines.size()); ++who) {
        State next = state;
        if (!step(next, who)) continue;
        moved = true;
        const auto [place, is_new] = seen_.emplace(std::move(next), Origin{&state, who});
        if (is_new) open.push_back(&place->first);
      }
      if (!moved) check_end(state);
    }
  }

  void check_end(const State& state) {
    if (state.queue.empty()) return;
    const bool somebody_sleeps =
        std::any_of(state.machines.begin(), state.machines.end(),
                    [](const Machine& machine) { return machine.pc == Pc::kSleep; });
    if (somebody_sleeps) {
      violation_ = "an item waits while a worker sleeps";
    } else if (!state.ticks) {
      violation_ = "an item waits, all workers are blocked, and nobody watches them";
    } else {
      return;
    }
    trace_.clear();
    const State* at = &state;
    while (const State* before = seen_.at(*at).before) {
      const int who = seen_.at(*at).who;
      const bool poster = who < scenario_.posters;
      const Pc pc = before->machines[static_cast<std::size_t>(who)].pc;
      trace_ = std::string(poster ? "poster " : "worker ") +
               std::to_string(poster ? who : who - scenario_.posters) + " " +
               kStepNames[static_cast<int>(pc)] + "\n" + trace_;
      at = before;
    }
  }

  // Does an operation of the real protocol on the counts of a state.
  template <class Operation>
  static void apply(State& state, Operation operation) {
    IdleProtocol idle;
    for (unsigned i = 0; i < state.counts.threads; ++i) idle.thread_started();
    for (unsigned i = 0; i < state.counts.parked; ++i) idle.park(/*was_searching=*/true);
    for (unsigned i = idle.counts().searching; i > state.counts.searching; --i) {
      idle.stop_searching();
    }
    operation(idle);
    state.counts = idle.counts();
  }

  // False if the machine cannot move.
  bool step(State& state, int who) const {
    Machine& me = state.machines[static_cast<std::size_t>(who)];
    switch (me.pc) {
      case Pc::kPush:
        state.queue.push_back(who);
        me.pc = Pc::kLink;
        return true;
      case Pc::kLink:
        std::replace(state.queue.begin(), state.queue.end(), who, kLinked);
        if (scenario_.poster_pushes_first) {
          start_wake(me, next_of_poster(me));
        } else {
          me.pc = next_of_poster(me);
        }
        return true;
      case Pc::kWakeCount:
      case Pc::kWakeLock:
      case Pc::kWakeTake:
      case Pc::kWakeToken:
        return step_of_wake(state, me, who);
      case Pc::kDone:
      case Pc::kNeverEnds:
        return false;
      default:
        return step_of_worker(state, me, who);
    }
  }

  Pc next_of_poster(Machine& me) const {
    return --me.items_left > 0 ? first_of_poster() : Pc::kDone;
  }
  static void start_wake(Machine& me, Pc after) {
    me.pc = Pc::kWakeCount;
    me.after_wake = after;
  }

  // ThreadPool's wake_if_needed() and wake().
  bool step_of_wake(State& state, Machine& me, int who) const {
    // A poster that looks before it pushes, pushes when it has looked.
    const bool pushes_now = who < scenario_.posters && !scenario_.poster_pushes_first;
    const Pc after = pushes_now ? Pc::kPush : me.after_wake;
    const auto threads = static_cast<unsigned>(scenario_.workers);
    switch (me.pc) {
      case Pc::kWakeCount: {
        const IdleCounts counts = state.counts;
        const bool searched = counts.searching > 0;
        if (!searched && counts.active() >= threads) state.ticks = true;
        const bool wakes = !searched && counts.parked > 0 && counts.active() < threads;
        me.pc = wakes ? Pc::kWakeLock : after;
        return true;
      }
      case Pc::kWakeLock:
        if (state.mutex_owner != kNobody) return false;
        if (state.counts.searching > 0 || state.parked.empty()) {
          me.pc = after;
        } else {
          state.mutex_owner = who;
          me.pc = Pc::kWakeTake;
        }
        return true;
      case Pc::kWakeTake:
        me.wakes = state.parked.back();
        state.parked.pop_back();
        apply(state, [](IdleProtocol& idle) { idle.unpark_to_search(); });
        state.mutex_owner = kNobody;
        me.pc = Pc::kWakeToken;
        return true;
      default:
        state.machines[static_cast<std::size_t>(me.wakes)].has_token = true;
        me.wakes = kNobody;
        me.pc = after;
        return true;
    }
  }

  // ThreadPool's run(), search(), park() and sleep().
  bool step_of_worker(State& state, Machine& me, int who) const {
    const bool empty = state.queue.empty();
    switch (me.pc) {
      case Pc::kPop:
        if (empty) {
          me.pc = me.searching ? Pc::kSearch : Pc::kStartSearching;
          return true;
        }
        // The list is torn where an item is not linked yet, and pop() waits there.
        if (state.queue[0] != kLinked) return false;
        if (state.queue.size() > 1 && state.queue[1] != kLinked) return false;
        state.queue.erase(state.queue.begin());
        me.pc = me.searching ? Pc::kStopSearching : Pc::kRun;
        return true;
      case Pc::kStopSearching: {
        bool last = false;
        apply(state, [&last](IdleProtocol& idle) { last = idle.stop_searching(); });
        me.searching = false;
        me.pc = last ? Pc::kLookForMore : Pc::kRun;
        return true;
      }
      case Pc::kLookForMore:
        if (empty) {
          me.pc = Pc::kRun;
        } else {
          start_wake(me, Pc::kRun);
        }
        return true;
      case Pc::kRun:
        me.pc = scenario_.items_end ? Pc::kPop : Pc::kNeverEnds;
        return true;
      case Pc::kStartSearching:
        apply(state, [&me](IdleProtocol& idle) { me.searching = idle.start_searching(); });
        me.pc = me.searching ? Pc::kSearch : Pc::kPark;
        return true;
      case Pc::kSearch:
        me.pc = empty ? Pc::kPark : Pc::kPop;
        return true;
      case Pc::kPark:
        if (state.mutex_owner != kNobody) return false;
        state.parked.push_back(who);
        apply(state, [&me](IdleProtocol& idle) { idle.park(me.searching); });
        me.searching = false;
        me.pc = scenario_.sleeper_looks_again ? Pc::kLastLook : Pc::kSleep;
        return true;
      case Pc::kLastLook:
        me.pc = empty ? Pc::kSleep : Pc::kLeaveParked;
        return true;
      case Pc::kLeaveParked:
        if (state.mutex_owner != kNobody) return false;
        if (std::erase(state.parked, who) > 0) {
          apply(state, [](IdleProtocol& idle) { idle.unpark_to_search(); });
          me.searching = true;
          me.pc = Pc::kPop;
        } else {
          me.pc = Pc::kSleep;  // somebody wakes it just now
        }
        return true;
      case Pc::kSleep:
        if (!me.has_token) return false;
        me.has_token = false;
        me.searching = true;
        me.pc = Pc::kPop;
        return true;
      default:
        return false;
    }
  }

  const Scenario scenario_;
  std::map<State, Origin> seen_;
  std::optional<std::string> violation_;
  std::string trace_;
};

TEST(SleepProtocol, NoItemIsLeftBehindInAnyInterleaving) {
  for (const Scenario scenario : {Scenario{.posters = 1, .items_each = 2, .workers = 2},
                                  Scenario{.posters = 2, .items_each = 1, .workers = 1},
                                  Scenario{.posters = 2, .items_each = 2, .workers = 1},
                                  Scenario{.posters = 2, .items_each = 1, .workers = 2}}) {
    Explorer explorer(scenario);
    EXPECT_EQ(explorer.find_violation(), std::nullopt) << explorer.trace();
    EXPECT_GT(explorer.states(), 100U);
  }
}

// Items that wait for each other need a worker each: it does not help them that one which has
// taken an item will come back for the next.
TEST(SleepProtocol, NoWorkerSleepsWhileAnItemWaitsInAnyInterleaving) {
  for (const Scenario scenario :
       {Scenario{.posters = 1, .items_each = 2, .workers = 2, .items_end = false},
        Scenario{.posters = 2, .items_each = 1, .workers = 2, .items_end = false},
        Scenario{.posters = 1, .items_each = 3, .workers = 2, .items_end = false},
        Scenario{.posters = 1, .items_each = 4, .workers = 3, .items_end = false}}) {
    Explorer explorer(scenario);
    EXPECT_EQ(explorer.find_violation(), std::nullopt) << explorer.trace();
  }
}

TEST(SleepProtocol, TheSearchFindsASleeperThatDoesNotLookAgain) {
  Explorer explorer({.posters = 1, .items_each = 2, .workers = 2, .sleeper_looks_again = false});
  EXPECT_EQ(explorer.find_violation(), "an item waits while a worker sleeps");
}

TEST(SleepProtocol, TheSearchFindsAPosterThatLooksBeforeItPushes) {
  Explorer explorer({.posters = 1, .items_each = 2, .workers = 2, .poster_pushes_first = false});
  EXPECT_EQ(explorer.find_violation(), "an item waits while a worker sleeps");
}

}  // namespace
}  // namespace keyway
