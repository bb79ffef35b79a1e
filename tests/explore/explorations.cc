#include "explore/explorations.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include <malloc.h>

#include <gtest/gtest.h>

#include "explore/kept_schedules.h"

namespace keyway::explore {
namespace {

constexpr std::uint64_t kShortRun = 5'000;
constexpr int kPreemptions = 2;
constexpr std::uint64_t kSeed = 20'240'229;

struct Totals {
  std::uint64_t tests = 0;
  std::uint64_t exhausted = 0;
  std::uint64_t executions = 0;
  std::uint64_t distinct = 0;
  std::uint64_t steps = 0;
  std::uint64_t divergences = 0;
};
std::map<std::string, Totals, std::less<>> totals;

// The explorer's own scenarios count for no component of the library.
constexpr std::string_view kOwnSuite = "Explorer";
constexpr std::string_view kOwnComponent = "explorer";

bool explores(std::string_view suite) { return suite != kOwnSuite && suite != "KeptSchedules"; }

int count_tests_of_components() {
  int count = 0;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *all.GetTestSuite(i);
    if (explores(suite.name())) count += suite.test_to_run_count();
  }
  return std::max(count, 1);
}

// How many interleavings were asked for, in all.
std::optional<std::uint64_t> wanted_in_all() {
  const char* text = std::getenv("KEYWAY_INTERLEAVINGS");
  if (text == nullptr) return std::nullopt;
  std::uint64_t count = 0;
  std::from_chars(text, text + std::strlen(text), count);
  return count;
}

// Of one test.
std::uint64_t budget() {
  const std::optional<std::uint64_t> in_all = wanted_in_all();
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  if (!in_all || all.current_test_suite()->name() == kOwnSuite) return kShortRun;
  return *in_all / static_cast<std::uint64_t>(count_tests_of_components()) + 1;
}

std::string name_of_this_test() {
  const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
  return std::string(test.test_suite_name()) + "." + test.name();
}

// `before`: how many interleavings other strategies have run.
std::string describe(const Outcome& outcome, std::string_view strategy, std::uint64_t before = 0) {
  return std::string(name_of(outcome.failure)) + " after " +
         std::to_string(before + outcome.executions) + " interleavings (" + std::string(strategy) +
         "): " + outcome.message + "\nTo run it again: KEYWAY_REPLAY=" + outcome.schedule +
         " <this program> --gtest_filter=" + name_of_this_test();
}

void replay_kept_schedules(const ScenarioOptions& options,
                           const std::function<std::unique_ptr<Scenario>()>& make) {
  for (const KeptSchedule& kept : kKeptSchedules) {
    if (kept.test != name_of_this_test()) continue;
    const Outcome outcome = explore(make, options, *replay(kept.schedule), 1);
    EXPECT_TRUE(outcome.ok()) << "the schedule of " << kept.bug << ": "
                              << describe(outcome, "replay");
    const bool has_deviations = !parse_schedule(kept.schedule).empty();
    EXPECT_TRUE(outcome.followed > 0 || !has_deviations)
        << "the schedule of " << kept.bug << " does not apply to this code any more; find another: "
        << "make bite, then tests/bite/bite.py --keep " << kept.bug;
  }
}

struct Step {
  const char* name;
  std::unique_ptr<Strategy> strategy;
  std::uint64_t share;  // of the rest of the budget, in percent
};

class PrintsTotals final : public testing::Environment {
 public:
  void TearDown() override {
    if (totals.empty()) return;
    std::printf("%-16s %6s %10s %14s %12s %12s %9s\n", "component", "tests", "exhausted",
                "interleavings", "distinct", "steps", "diverged");
    Totals sum;
    for (const auto& [component, of] : totals) {
      print(component.c_str(), of);
      if (component == kOwnComponent) continue;
      sum.tests += of.tests;
      sum.exhausted += of.exhausted;
      sum.executions += of.executions;
      sum.distinct += of.distinct;
      sum.steps += of.steps;
      sum.divergences += of.divergences;
    }
    print("the library", sum);
    if (testing::UnitTest::GetInstance()->failed_test_count() > 0) return;  // it ended early
    EXPECT_GE(sum.executions, wanted_in_all().value_or(0)) << "interleavings";
  }

 private:
  static void print(const char* name, const Totals& of) {
    const auto number = [](std::uint64_t count) { return static_cast<unsigned long long>(count); };
    std::printf("%-16s %6llu %10llu %14llu %12llu %12llu %9llu\n", name, number(of.tests),
                number(of.exhausted), number(of.executions), number(of.distinct), number(of.steps),
                number(of.divergences));
  }
};

}  // namespace

void expect_holds(std::string_view component, const ScenarioOptions& options,
                  const std::function<std::unique_ptr<Scenario>()>& make) {
  if (const char* schedule = std::getenv("KEYWAY_REPLAY")) {
    const Outcome outcome = explore(make, options, *replay(schedule), 1);
    EXPECT_TRUE(outcome.ok()) << describe(outcome, "replay");
    return;
  }
  Totals& sum = totals.try_emplace(std::string(component)).first->second;
  ++sum.tests;
  std::uint64_t left = budget();
  std::uint64_t spent = 0;
  Step steps[] = {
      {"at most 1 preemption", exhaustive(1), 15},  {"at most 2 preemptions", exhaustive(2), 60},
      {"at most 3 preemptions", exhaustive(3), 60}, {"PCT of depth 2", pct(2, kSeed), 33},
      {"PCT of depth 3", pct(3, kSeed), 50},        {"random", uniform(kSeed), 100}};
  bool exhausted = true;  // of those with fewer preemptions
  for (Step& step : steps) {
    const bool goes_further = &step == &steps[2];
    if (goes_further && !exhausted) continue;
    const std::uint64_t share = std::max<std::uint64_t>(1, left * step.share / 100);
    const Outcome outcome = explore(make, options, *step.strategy, share);
    left -= std::min(left, outcome.executions);
    sum.executions += outcome.executions;
    sum.distinct += outcome.distinct;
    sum.steps += outcome.steps;
    sum.divergences += outcome.divergences;
    exhausted = outcome.exhausted && outcome.divergences == 0;
    if (&step == &steps[1] && exhausted) ++sum.exhausted;
    if (!outcome.ok()) {
      ADD_FAILURE() << describe(outcome, step.name, spent);
      return;
    }
    spent += outcome.executions;
    // What the block pool keeps outlives an execution, so a scenario of the pool may take another way.
    EXPECT_TRUE(outcome.divergences == 0 || options.explores_blocks)
        << outcome.divergences << " interleavings (" << step.name << ") did not repeat themselves: "
        << "the scenario depends on something that the explorer does not control";
  }
  replay_kept_schedules(options, make);
}

void expect_finds(FailureKind kind, const ScenarioOptions& options,
                  const std::function<std::unique_ptr<Scenario>()>& make) {
  const Outcome outcome = explore(make, options, *exhaustive(kPreemptions), 100'000);
  ASSERT_EQ(name_of(outcome.failure), name_of(kind)) << describe(outcome, "at most 2 preemptions");
  // The schedule that was printed leads there again.
  const Outcome again = explore(make, options, *replay(outcome.schedule), 1);
  EXPECT_EQ(name_of(again.failure), name_of(kind)) << describe(again, "replay");
}

}  // namespace keyway::explore

namespace keyway::explore {
namespace {

TEST(KeptSchedules, BelongToTestsOfThisProgram) {
  std::set<std::string> tests;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *all.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      tests.insert(std::string(suite.name()) + "." + suite.GetTestInfo(j)->name());
    }
  }
  std::set<std::string> bugs;
  for (const KeptSchedule& kept : kKeptSchedules) {
    EXPECT_TRUE(tests.contains(kept.test)) << kept.test << ", of the bug " << kept.bug;
    EXPECT_TRUE(bugs.insert(kept.bug).second) << kept.bug << " is listed twice";
  }
}

}  // namespace
}  // namespace keyway::explore

int main(int argc, char** argv) {
  mallopt(M_PERTURB, 0xa5);  // who reads freed memory crashes, or goes wrong
  testing::InitGoogleTest(&argc, argv);
  testing::AddGlobalTestEnvironment(new keyway::explore::PrintsTotals);
  return RUN_ALL_TESTS();
}
