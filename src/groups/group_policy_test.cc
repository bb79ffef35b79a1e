#include "keyway/group_policy.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "keyway/group_executor.h"
#include "keyway/testing/sim_scheduler.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using testing::SimScheduler;

constexpr auto nap = []() -> Task<void> { co_await sleep_for(10s); };
constexpr auto answer = [] { return 42; };

template <class Call>
std::optional<ErrorCode> code_of(Call call) {
  try {
    call();
  } catch (const Exception& exception) {
    return exception.code();
  }
  return std::nullopt;
}

// How many tasks of a group run at once if twenty are there; exact, since time is virtual.
int peak_of(GroupExecutor& executor, std::string_view key) {
  int inside = 0;
  int peak = 0;
  std::vector<TaskHandle<void>> handles;
  for (int i = 0; i < 20; ++i) {
    handles.push_back(executor.submit(key, std::to_string(i), [&]() -> Task<void> {
      peak = std::max(peak, ++inside);
      co_await sleep_for(1s);
      --inside;
    }));
  }
  for (auto& handle : handles) EXPECT_TRUE(handle.join().ok());
  return peak;
}

int peak_under(GroupPolicy policy, std::string_view key) {
  SimScheduler sim;
  GroupExecutor executor(std::move(policy), sim);
  return peak_of(executor, key);
}

// ---- resolution

TEST(GroupPolicy, AGroupThatNobodyNamesRunsOneTaskAtATimeAndQueuesWithoutLimit) {
  const GroupLimits limits = GroupPolicy{}.resolve("any");
  EXPECT_EQ(limits.max_concurrency, 1);
  EXPECT_EQ(limits.max_in_flight, kUnlimited);
  EXPECT_EQ(limits.queue_threshold, kUnlimited);
}

TEST(GroupPolicy, TheEntryOfAGroupComesBeforeResolverAndDefault) {
  const GroupPolicy policy{
      .groups = {{"vip", {.max_concurrency = 4, .max_in_flight = 5, .queue_threshold = 6}}},
      .resolver = [](std::string_view) { return 7; },
      .default_group = {.max_concurrency = 8, .max_in_flight = 9, .queue_threshold = 10}};
  const GroupLimits limits = policy.resolve("vip");
  EXPECT_EQ(limits.max_concurrency, 4);
  EXPECT_EQ(limits.max_in_flight, 5);
  EXPECT_EQ(limits.queue_threshold, 6);
}

TEST(GroupPolicy, TheResolverComesBeforeTheDefault) {
  const GroupPolicy policy{
      .resolver = [](std::string_view key) { return key.starts_with("vip:") ? 4 : 2; },
      .default_group = {.max_concurrency = 8}};
  EXPECT_EQ(policy.resolve("vip:7").max_concurrency, 4);
  EXPECT_EQ(policy.resolve("other").max_concurrency, 2);
}

TEST(GroupPolicy, EachLimitOfAGroupIsFoundByItself) {
  const GroupPolicy policy{.groups = {{"db", {.queue_threshold = 3}}},
                           .resolver = [](std::string_view) { return 6; },
                           .default_group = {.max_concurrency = 8, .max_in_flight = 9}};
  const GroupLimits limits = policy.resolve("db");
  EXPECT_EQ(limits.max_concurrency, 6);
  EXPECT_EQ(limits.max_in_flight, 9);
  EXPECT_EQ(limits.queue_threshold, 3);
}

TEST(GroupPolicy, AResolvedValueBelowOneCountsAsOne) {
  for (const int value : {0, -1, std::numeric_limits<int>::min()}) {
    const GroupPolicy policy{.resolver = [value](std::string_view) { return value; },
                             .default_group = {.max_concurrency = 8}};
    EXPECT_EQ(policy.resolve("any").max_concurrency, 1);
    EXPECT_EQ(peak_under(policy, "any"), 1);
  }
}

TEST(GroupPolicy, AThrowingResolverFallsBackToTheDefault) {
  const GroupPolicy policy{.resolver = [](std::string_view key) -> int {
                             if (key == "standard") throw std::runtime_error("no such tenant");
                             throw 42;
                           },
                           .default_group = {.max_concurrency = 3}};
  EXPECT_EQ(policy.resolve("standard").max_concurrency, 3);
  EXPECT_EQ(policy.resolve("odd").max_concurrency, 3);
  EXPECT_EQ(peak_under(policy, "odd"), 3);
}

TEST(GroupPolicy, AGroupWhoseEntryNamesItsConcurrencyIsNotAskedOfTheResolver) {
  int asked = 0;
  const GroupPolicy policy{
      .groups = {{"vip", {.max_concurrency = 4}}, {"db", {.max_in_flight = 2}}},
      .resolver = [&](std::string_view) { return ++asked; }};
  EXPECT_EQ(policy.resolve("vip").max_concurrency, 4);
  EXPECT_EQ(asked, 0);
  EXPECT_EQ(policy.resolve("db").max_concurrency, 1);
  EXPECT_EQ(asked, 1);
}

TEST(GroupPolicy, AnExecutorRunsEachGroupUnderTheLimitThatWasFoundForIt) {
  const GroupPolicy policy{
      .groups = {{"map", {.max_concurrency = 4}},
                 {"both", {.max_concurrency = 6, .max_in_flight = 3}}},
      .resolver = [](std::string_view key) { return key == "resolved" ? 5 : 2; }};
  EXPECT_EQ(peak_under(policy, "map"), 4);
  EXPECT_EQ(peak_under(policy, "resolved"), 5);
  EXPECT_EQ(peak_under(policy, "other"), 2);
  EXPECT_EQ(peak_under(policy, "both"), 3);
}

// ---- when it is resolved

TEST(GroupPolicy, TheLimitsOfAGroupAreFoundAtItsFirstUseAndKept) {
  SimScheduler sim;
  std::vector<std::string> asked;
  GroupExecutor executor({.resolver =
                              [&](std::string_view key) {
                                asked.emplace_back(key);
                                return static_cast<int>(asked.size());
                              }},
                         sim);
  EXPECT_TRUE(asked.empty());
  EXPECT_EQ(peak_of(executor, "a"), 1);
  EXPECT_EQ(peak_of(executor, "b"), 2);
  EXPECT_EQ(peak_of(executor, "a"), 1);
  EXPECT_EQ(asked, (std::vector<std::string>{"a", "b"}));
}

TEST(GroupPolicy, WithAGlobalQueueThresholdTheLimitsAreFoundOnceToo) {
  SimScheduler sim;
  int asked = 0;
  GroupExecutor executor({.resolver = [&](std::string_view) { return ++asked; },
                          .global_max_in_flight = 100,
                          .global_queue_threshold = 100},
                         sim);
  EXPECT_EQ(peak_of(executor, "a"), 1);
  EXPECT_EQ(asked, 1);
}

TEST(GroupPolicy, AnEvictedGroupHasItsLimitsFoundAnew) {
  SimScheduler sim;
  int limit = 2;
  GroupExecutor executor({.resolver = [&](std::string_view) { return limit; }}, sim);
  EXPECT_EQ(peak_of(executor, "a"), 2);
  limit = 5;
  EXPECT_EQ(peak_of(executor, "a"), 2);
  executor.evict_group("a");
  EXPECT_EQ(peak_of(executor, "a"), 5);
}

TEST(GroupPolicy, TheResolverMayUseTheExecutor) {
  SimScheduler sim;
  GroupExecutor* self = nullptr;
  GroupExecutor executor({.resolver =
                              [&](std::string_view key) {
                                if (key == "inner") return 1;
                                return self->submit("inner", "1", [] { return 3; }).join().value();
                              }},
                         sim);
  self = &executor;
  EXPECT_EQ(peak_of(executor, "outer"), 3);
}

// A resolver takes longer than the time between two changes of other groups.
TEST(GroupPolicy, ChangesOfOtherGroupsDoNotHaveTheLimitsFoundAgain) {
  SimScheduler sim;
  GroupExecutor* self = nullptr;
  int asked = 0;
  GroupExecutor executor({.resolver =
                              [&](std::string_view) {
                                if (++asked <= 100) {
                                  const std::string other = "other " + std::to_string(asked);
                                  EXPECT_TRUE(self->set_limit(other, 2).ok());
                                }
                                return 3;
                              }},
                         sim);
  self = &executor;
  auto handle = executor.submit("a", [] {});
  EXPECT_TRUE(handle.join().ok());
  // A group may share its version with another one, and then the limits are found twice.
  EXPECT_LE(asked, 10);
}

// ---- how they are forgotten

TEST(EvictGroup, WhileTasksRunNeverLetsMoreRunThanTheLimit) {
  std::atomic<int> inside = 0;
  GroupExecutor executor({});
  std::vector<TaskHandle<void>> handles;
  for (int i = 0; i < 2000; ++i) {
    handles.push_back(executor.submit("a", std::to_string(i), [&] {
      EXPECT_EQ(++inside, 1);
      std::this_thread::yield();
      --inside;
    }));
    if (i % 3 == 0) executor.evict_group("a");
  }
  for (auto& handle : handles) EXPECT_TRUE(handle.join().ok());
}

TEST(EvictGroup, RacingWithSubmitsAndShutdownsOfTheGroupLosesNoTask) {
  std::atomic<int> inside = 0;
  std::vector<std::vector<TaskHandle<void>>> taken(4);
  GroupExecutor executor({.global_max_in_flight = 3});
  {
    std::vector<std::jthread> submitters;
    for (auto& own : taken) {
      submitters.emplace_back([&] {
        for (int i = 0; i < 1000; ++i) {
          own.push_back(executor.submit("a", "1", [&] {
            EXPECT_EQ(++inside, 1);
            --inside;
          }));
          if (i % 50 == 0) executor.shutdown_group("a");
          if (i % 10 == 0) executor.evict_group("a");
        }
      });
    }
  }
  for (auto& own : taken) {
    for (auto& handle : own) {
      const TaskStatus status = handle.join().status;
      EXPECT_TRUE(status == TaskStatus::kSuccess || status == TaskStatus::kRejected);
    }
  }
  const GroupStats stats = executor.stats();
  EXPECT_EQ(stats.submitted, 4000U);
  EXPECT_EQ(stats.succeeded + stats.rejected, 4000U);
}

TEST(EvictGroup, ANewLimitHoldsFromTheNextSubmitOn) {
  SimScheduler sim;
  int limit = 3;
  GroupExecutor executor({.resolver = [&](std::string_view) { return limit; }}, sim);
  const auto running_after_submit = [&] {
    (void)executor.submit("a", "1", nap);
    sim.run_ready();
    return executor.group_stats("a").running;
  };
  for (std::uint64_t i = 1; i <= 3; ++i) EXPECT_EQ(running_after_submit(), i);
  limit = 1;
  executor.evict_group("a");
  EXPECT_EQ(running_after_submit(), 3U);  // those that run are not touched
  sim.advance(10s);
  EXPECT_EQ(executor.group_stats("a").running, 1U);
  EXPECT_EQ(running_after_submit(), 1U);
  limit = 5;
  executor.evict_group("a");
  executor.evict_group("unknown");
  EXPECT_EQ(running_after_submit(), 3U);
}

TEST(GroupPolicy, KeysThatAreNoLongerUsedAreForgottenButTheirTasksStayCounted) {
  GroupExecutor executor({});
  for (int i = 0; i < 20'000; ++i) EXPECT_TRUE(executor.post(std::to_string(i), answer).ok());
  EXPECT_TRUE(executor.shutdown(1h));
  int known = 0;
  for (int i = 0; i < 20'000; ++i) {
    known += executor.group_stats(std::to_string(i)).submitted > 0 ? 1 : 0;
  }
  EXPECT_LE(known, 2048);
  EXPECT_EQ(executor.stats().succeeded, 20'000U);
}

// ---- groups that are pinned

TEST(GroupHandle, AGroupHandleSubmitsToItsGroup) {
  SimScheduler sim;
  GroupExecutor executor({.groups = {{"a", {.queue_threshold = 1}}}}, sim);
  GroupHandle group = executor.group("a");
  EXPECT_EQ(group.key(), "a");
  auto first = group.submit("1", answer);
  EXPECT_TRUE(group.post(answer).ok());
  EXPECT_EQ(first.group_key(), "a");
  EXPECT_EQ(group.post(answer).error().code, ErrorCode::kRejected);
  EXPECT_THROW((void)executor.submit("a", "2", answer).join(), RejectedError);
  EXPECT_EQ(first.join().value(), 42);
  const GroupHandle moved = std::move(group);
  EXPECT_EQ(moved.key(), "a");
}

TEST(GroupHandle, AGroupHandleKeepsItsGroupHoweverManyOthersComeAndGo) {
  GroupExecutor executor({});
  GroupHandle group = executor.group("pinned");
  EXPECT_TRUE(group.submit("1", answer).join().ok());
  for (int i = 0; i < 10'000; ++i) EXPECT_TRUE(executor.post(std::to_string(i), answer).ok());
  EXPECT_TRUE(group.submit("2", answer).join().ok());
  executor.evict_group("pinned");
  EXPECT_TRUE(group.submit("3", answer).join().ok());
  EXPECT_EQ(executor.group_stats("pinned").succeeded, 3U);
  executor.shutdown();
  EXPECT_EQ(code_of([&] { (void)group.submit("4", answer); }), ErrorCode::kShutdown);
  EXPECT_EQ(code_of([&] { (void)group.post(answer); }), ErrorCode::kShutdown);
}

// ---- own copies

TEST(GroupPolicy, AnExecutorKeepsACopyOfItsPolicy) {
  SimScheduler sim;
  GroupPolicy policy{.groups = {{"a", {.max_concurrency = 2}}}};
  GroupExecutor executor(policy, sim);
  policy.groups["a"].max_concurrency = 7;
  policy.groups["b"].max_concurrency = 7;
  policy.default_group.max_concurrency = 7;
  EXPECT_EQ(peak_of(executor, "a"), 2);
  EXPECT_EQ(peak_of(executor, "b"), 1);
}

TEST(GroupPolicy, AKeyIsCopiedByWhoeverKeepsIt) {
  SimScheduler sim;
  GroupExecutor executor({.groups = {{"a", {.max_concurrency = 2}}}}, sim);
  std::string key = "a";
  std::string id = "1";
  auto handle = executor.submit(key, id, [] {});
  key = "b";
  id = "2";
  EXPECT_EQ(handle.group_key(), "a");
  EXPECT_EQ(handle.task_id(), "1");
  EXPECT_EQ(handle.join().group_key, "a");
}

// ---- validation

TEST(GroupPolicy, ACallThatCannotBeMeantIsRefused) {
  GroupExecutor executor({});
  EXPECT_EQ(code_of([&] { (void)executor.submit("", "1", answer); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] { (void)executor.post("", answer); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] { (void)executor.group(""); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] { (void)executor.submit("g", "1", std::function<int()>()); }),
            ErrorCode::kInvalidArgument);
  int (*null)() = nullptr;
  EXPECT_EQ(code_of([&] { (void)executor.submit("g", "1", null); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] { GroupTask<int>("", "1", answer); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] { GroupTask<int>("g", "1", std::function<int()>()); }),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(executor.stats().submitted, 0U);
}

TEST(GroupPolicy, NamesMayHaveUpTo65535Bytes) {
  GroupExecutor executor({});
  const std::string longest(65535, 'x');
  auto result = executor.submit(longest, longest, answer).join();
  EXPECT_EQ(result.group_key, longest);
  EXPECT_EQ(result.task_id, longest);
  EXPECT_EQ(code_of([&] { (void)executor.submit(longest + "x", "1", answer); }),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] { (void)executor.submit("g", longest + "x", answer); }),
            ErrorCode::kInvalidArgument);
}

struct Invalid {
  std::string name;
  GroupPolicy policy;
  std::string message;
};

class InvalidGroupPolicy : public ::testing::TestWithParam<Invalid> {};

TEST_P(InvalidGroupPolicy, IsRefusedWithTheNameOfTheLimitAndItsValue) {
  const Result<void> valid = GetParam().policy.validate();
  ASSERT_FALSE(valid.ok());
  EXPECT_EQ(valid.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(valid.error().message, GetParam().message);

  try {
    const GroupExecutor executor(GetParam().policy);
    FAIL() << "the executor took it";
  } catch (const Exception& refused) {
    EXPECT_EQ(refused.code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(refused.error().message, GetParam().message);
  }
}

INSTANTIATE_TEST_SUITE_P(
    , InvalidGroupPolicy,
    ::testing::Values(Invalid{"DefaultConcurrencyZero",
                              {.default_group = {.max_concurrency = 0}},
                              "max_concurrency of default_group is 0; it must be at least 1"},
                      Invalid{"DefaultConcurrencyNegative",
                              {.default_group = {.max_concurrency = -3}},
                              "max_concurrency of default_group is -3; it must be at least 1"},
                      Invalid{"GroupConcurrency",
                              {.groups = {{"ok", {.max_concurrency = 1}},
                                          {"x", {.max_concurrency = 0}}}},
                              "max_concurrency of group \"x\" is 0; it must be at least 1"},
                      Invalid{"DefaultInFlight",
                              {.default_group = {.max_in_flight = 0}},
                              "max_in_flight of default_group is 0; it must be at least 1"},
                      Invalid{"GroupInFlight",
                              {.groups = {{"x", {.max_in_flight = -1}}}},
                              "max_in_flight of group \"x\" is -1; it must be at least 1"},
                      Invalid{"GlobalInFlightZero",
                              {.global_max_in_flight = 0},
                              "global_max_in_flight is 0; it must be at least 1"},
                      Invalid{"DefaultThreshold",
                              {.default_group = {.queue_threshold = -1}},
                              "queue_threshold of default_group is -1; it must be at least 0"},
                      Invalid{"GroupThreshold",
                              {.groups = {{"x", {.queue_threshold = -1}}}},
                              "queue_threshold of group \"x\" is -1; it must be at least 0"},
                      Invalid{"WeightZero",
                              {.groups = {{"x", {.weight = 0}}}},
                              "weight of group \"x\" is 0; it must be at least 1"},
                      Invalid{"WeightTooLarge",
                              {.groups = {{"x", {.weight = 1'001}}}},
                              "weight of group \"x\" is 1001; it must be at most 1000"},
                      Invalid{"GlobalThreshold",
                              {.global_queue_threshold = -1},
                              "global_queue_threshold is -1; it must be at least 0"},
                      Invalid{"EmptyKey", {.groups = {{"", {}}}}, "groups has an empty key"}),
    [](const auto& instance) { return instance.param.name; });

TEST(GroupPolicy, ItsChoicesArePrintedByName) {
  EXPECT_EQ(::testing::PrintToString(RejectionPolicy::kAbort), "abort");
  EXPECT_EQ(::testing::PrintToString(RejectionPolicy::kDiscard), "discard");
  EXPECT_EQ(::testing::PrintToString(RejectionPolicy::kCallerRuns), "caller_runs");
  EXPECT_EQ(::testing::PrintToString(Conflation::kNone), "none");
  EXPECT_EQ(::testing::PrintToString(Conflation::kShareResult), "share_result");
  EXPECT_EQ(::testing::PrintToString(HeldBackBy::kNothing), to_string(HeldBackBy::kNothing));
}

TEST(GroupPolicy, TheSmallestAndTheLargestLimitsAreValid) {
  const GroupLimits least{.max_concurrency = 1, .max_in_flight = 1, .queue_threshold = 0};
  EXPECT_TRUE((GroupPolicy{.groups = {{"x", least}},
                           .default_group = least,
                           .global_max_in_flight = 1,
                           .global_queue_threshold = 0}
                   .validate()
                   .ok()));
  const GroupLimits most{.max_concurrency = kUnlimited,
                         .max_in_flight = kUnlimited,
                         .queue_threshold = kUnlimited,
                         .weight = 1'000};
  const GroupPolicy unlimited{.groups = {{"x", most}}, .default_group = most};
  EXPECT_TRUE(unlimited.validate().ok());
  EXPECT_EQ(peak_under(unlimited, "x"), 20);
}

}  // namespace
}  // namespace keyway
