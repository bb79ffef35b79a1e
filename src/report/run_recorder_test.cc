#include "report/run_recorder.h"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "support/json.h"
#include "support/memory.h"
#include "support/temporary_folder.h"

namespace keyway {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr LoggedAttempt::Time kStart{400'000h};

struct Given {
  std::string id = "job";
  std::string group = "vip";
  milliseconds queued{0};
  milliseconds start{0};
  milliseconds end{100};
  AttemptOutcome outcome = AttemptOutcome::kOk;
  std::string error_output = {};
};

LoggedAttempt attempt(const Given& given) {
  static std::uint64_t seq = 0;
  LoggedAttempt result;
  result.id = given.id;
  result.seq = ++seq;
  result.group = given.group;
  result.queued = kStart + given.queued;
  result.start = kStart + given.start;
  result.end = kStart + given.end;
  result.outcome = given.outcome;
  result.error_output = given.error_output;
  result.final = given.outcome != AttemptOutcome::kRetry;
  return result;
}

std::size_t occurrences(const std::string& text, std::string_view part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// What stands between the tags of the page's data.
Json data_of(const std::string& page) {
  const std::string open = R"(<script type="application/json" id="data">)";
  const std::size_t begin = page.find(open) + open.size();
  return Json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

TEST(RunRecorder, CountsWhatHappened) {
  RunRecorder recorder({.title = "jobs.jsonl"});
  recorder.add(attempt({.id = "a", .start = 0ms, .end = 100ms}));
  recorder.add(attempt({.id = "b", .start = 50ms, .end = 90ms, .outcome = AttemptOutcome::kRetry}));
  LoggedAttempt again = attempt({.id = "b", .queued = 190ms, .start = 200ms, .end = 260ms});
  again.attempt = 2;
  recorder.add(again);
  recorder.add(attempt({.id = "c",
                        .group = "std",
                        .end = 10ms,
                        .outcome = AttemptOutcome::kFailed,
                        .error_output = "no such host\n"}));
  recorder.add(attempt({.id = "d", .group = "std", .outcome = AttemptOutcome::kTimedOut}));
  const Json data = Json::parse(recorder.json({.places = 4, .not_run = 7}));
  const Json& run = data["run"];
  EXPECT_EQ(run["attempts"].number(), 5);
  EXPECT_EQ(run["ok"].number(), 2);
  EXPECT_EQ(run["okAfterRetry"].number(), 1);
  EXPECT_EQ(run["retries"].number(), 1);
  EXPECT_EQ(run["failed"].number(), 1);
  EXPECT_EQ(run["timedOut"].number(), 1);
  EXPECT_EQ(run["notRun"].number(), 7);
  EXPECT_EQ(run["places"].number(), 4);
  EXPECT_EQ(run["elapsed"].number(), 260'000);
  EXPECT_EQ(run["busy"].number(), 310'000);
  EXPECT_EQ(run["groups"].number(), 2);
  ASSERT_EQ(data["failures"].size(), 2U);
  EXPECT_EQ(data["failures"][0]["output"].text(), "no such host\n");
  EXPECT_NE(
      recorder.html().find("4 jobs in 2 groups ended in 260 ms: 2 ok, 2 failed, 1 try repeated."),
      std::string::npos);
}

TEST(RunRecorder, OneThatNeverRanIsCountedButHasNoTimes) {
  RunRecorder recorder({});
  recorder.add(
      attempt({.queued = 5ms, .start = 5ms, .end = 5ms, .outcome = AttemptOutcome::kFailed}));
  recorder.add(
      attempt({.queued = 0ms, .start = 9ms, .end = 9ms, .outcome = AttemptOutcome::kCancelled}));
  recorder.add(attempt({.queued = 1ms, .start = 3ms, .end = 8ms}));
  EXPECT_EQ(recorder.counts().failed, 1U);
  EXPECT_EQ(recorder.counts().cancelled, 1U);
  EXPECT_EQ(recorder.counts().running.count(), 1U);
  EXPECT_EQ(recorder.counts().waiting.max(), 2ms);
}

TEST(RunRecorder, WhereAStreamStoodIsShownInTheBucketsOfTheOtherCharts) {
  RunRecorder recorder({});
  recorder.add(attempt({.end = 10ms}));
  EXPECT_FALSE(data_of(recorder.html())["series"].has("watermark"));
  for (int at = 0; at < 10; at += 2) {
    recorder.add(StreamSample{.time = kStart + milliseconds(at),
                              .watermark = 100U + static_cast<unsigned>(at),
                              .done_above = 7,
                              .in_flight = 3});
  }
  recorder.add(StreamSample{.time = kStart + 50ms, .watermark = 200});
  const Json series = data_of(recorder.html())["series"];
  ASSERT_EQ(series["watermark"].size(), series["running"].size());
  EXPECT_EQ(series["watermark"][0].number(), 100);
  EXPECT_EQ(series["watermark"][3].number(), 102);
  EXPECT_EQ(series["doneAbove"][3].number(), 7);
  EXPECT_EQ(series["inFlight"][3].number(), 3);
  const int last = static_cast<int>(series["watermark"].size()) - 1;
  EXPECT_EQ(series["watermark"][last].number(), 200) << "the end is what was true then";
}

TEST(RunRecorder, OfManySamplesTheNewestIsAlwaysThere) {
  RunRecorder::Bounds bounds;
  bounds.samples = 16;
  RunRecorder recorder({}, bounds);
  recorder.add(attempt({.end = 1000ms}));
  for (unsigned at = 0; at <= 1000; ++at) {
    recorder.add(StreamSample{.time = kStart + milliseconds(at), .watermark = at});
  }
  const Json watermark = data_of(recorder.html())["series"]["watermark"];
  const int last = static_cast<int>(watermark.size()) - 1;
  EXPECT_EQ(watermark[last].number(), 1000);
  EXPECT_GT(watermark[last / 2].number(), 300);
}

TEST(RunRecorder, APageWithoutAnyAttemptIsAPage) {
  const RunRecorder recorder({.title = "empty.jsonl"});
  const std::string page = recorder.html();
  EXPECT_NE(page.find("No jobs ran."), std::string::npos);
  EXPECT_EQ(data_of(page)["run"]["attempts"].number(), 0);
  EXPECT_EQ(data_of(page)["series"]["ok"].size(), 0U);
}

TEST(RunRecorder, TheBarsHaveTheirTimes) {
  RunRecorder recorder({});
  recorder.add(attempt({.id = "first", .queued = 0ms, .start = 5ms, .end = 30ms}));
  recorder.add(attempt({.id = "second", .queued = 10ms, .start = 30ms, .end = 31ms}));
  const Json kept = Json::parse(recorder.json())["kept"];
  EXPECT_EQ(kept["id"][1].text(), "second");
  EXPECT_EQ(kept["queued"][1].number(), 10'000);
  EXPECT_EQ(kept["wait"][1].number(), 20'000);
  EXPECT_EQ(kept["run"][1].number(), 1000);
  EXPECT_EQ(kept["outcome"].text(), "oo");
}

TEST(RunRecorder, UsesTheNounsItIsGiven) {
  RunRecorder recorder({.title = "orders",
                        .command = "keyway run",
                        .item = "record",
                        .items = "records",
                        .group = "key",
                        .groups = "keys"});
  recorder.add(attempt({}));
  const std::string page = recorder.html();
  EXPECT_NE(page.find("1 record in 1 key ended"), std::string::npos);
  EXPECT_NE(page.find("<title>orders · keyway run</title>"), std::string::npos);
  EXPECT_EQ(data_of(page)["texts"]["items"].text(), "records");
}

TEST(RunRecorder, WhatIdsGroupsTitlesAndOutputContainStaysText) {
  const std::string evil =
      R"_(</script><img src=x onerror="alert(1)"><script>alert(2)</script><!--)_";
  RunRecorder recorder({.title = evil, .command = "{{data}}"});
  const std::size_t scripts = occurrences(RunRecorder({}).html(), "<script");
  recorder.add(attempt(
      {.id = evil, .group = evil, .outcome = AttemptOutcome::kFailed, .error_output = evil}));
  const std::string page = recorder.html({.note = evil});
  EXPECT_EQ(occurrences(page, "<script"), scripts);
  EXPECT_EQ(occurrences(page, "</script"), scripts);
  EXPECT_EQ(page.find("<img"), std::string::npos);
  EXPECT_EQ(page.find("<!--"), std::string::npos);
  EXPECT_EQ(occurrences(page, R"(id="data">)"), 1U) << "what is filled in is not filled again";
  const Json data = data_of(page);
  EXPECT_EQ(data["kept"]["id"][0].text(), evil);
  EXPECT_EQ(data["groups"][0]["name"].text(), evil);
  EXPECT_EQ(data["failures"][0]["output"].text(), evil);
  EXPECT_EQ(data["run"]["note"].text(), evil);
}

TEST(RunRecorder, ThePageLoadsNothingAndSaysSo) {
  RunRecorder recorder({});
  recorder.add(attempt({}));
  const std::string page = recorder.html();
  EXPECT_NE(page.find("default-src 'none'; style-src 'sha256-"), std::string::npos);
  EXPECT_EQ(page.find("unsafe"), std::string::npos);
  for (const char* loads :
       {" src=", "@import", "<link", "<iframe", "<object", "fetch(", "import("}) {
    EXPECT_EQ(page.find(loads), std::string::npos) << loads;
  }
  // The one address is the name of a namespace.
  EXPECT_EQ(occurrences(page, "http://"), occurrences(page, "http://www.w3.org/2000/svg"));
  EXPECT_EQ(page.find("https://"), std::string::npos);
}

TEST(RunRecorder, EveryTagOfThePageIsClosed) {
  std::string page = RunRecorder({}).html();
  // Without the style, the data and the script, whose contents are not markup.
  for (const std::string tag : {"style", "script"}) {
    for (auto at = page.find("<" + tag); at != std::string::npos;
         at = page.find("<" + tag, at + 1)) {
      const std::size_t inside = page.find('>', at) + 1;
      page.erase(inside, page.find("</" + tag, inside) - inside);
    }
  }
  std::vector<std::string> open;
  for (auto at = page.find('<'); at != std::string::npos; at = page.find('<', at + 1)) {
    const std::size_t end = page.find('>', at);
    ASSERT_NE(end, std::string::npos);
    const std::string tag = page.substr(at + 1, end - at - 1);
    const std::string name = tag.substr(0, tag.find_first_of(" /", 1));
    if (tag[0] == '!' || name == "meta" || name == "input" || tag.back() == '/') continue;
    if (tag[0] != '/') {
      open.push_back(name);
      continue;
    }
    ASSERT_FALSE(open.empty()) << tag;
    EXPECT_EQ("/" + open.back(), tag);
    open.pop_back();
  }
  EXPECT_TRUE(open.empty());
}

TEST(RunRecorder, SaysWhatTheRunCouldNotHaveBeenShorterThan) {
  const auto bound = [](RunRecorder& recorder, int places) {
    return Json::parse(recorder.json({.places = places, .limit_of = [](std::string_view group) {
                                        return group == "vip" ? 4 : 1;
                                      }}))["run"]["bound"];
  };
  RunRecorder recorder({});
  for (int i = 0; i < 6; ++i) {
    recorder.add(attempt({.group = "serial", .start = i * 100ms, .end = (i + 1) * 100ms}));
    recorder.add(attempt({.group = "vip", .start = 0ms, .end = 200ms}));
  }
  EXPECT_EQ(bound(recorder, 8)["kind"].text(), "group");
  EXPECT_EQ(bound(recorder, 8)["name"].text(), "serial");
  EXPECT_EQ(bound(recorder, 8)["needed"].number(), 600'000);
  EXPECT_EQ(bound(recorder, 2)["kind"].text(), "places") << "1.8 s of work through two";
  EXPECT_EQ(bound(recorder, 2)["needed"].number(), 900'000);
  recorder.add(attempt({.id = "giant", .group = "vip", .end = 950ms}));
  EXPECT_EQ(bound(recorder, 8)["kind"].text(), "item");
  EXPECT_EQ(bound(recorder, 8)["name"].text(), "giant");
}

TEST(RunRecorder, CountsTheBusiestGroupsOneByOneAndTheRestTogether) {
  RunRecorder::Bounds bounds;
  bounds.groups = 5;
  RunRecorder recorder({}, bounds);
  for (int i = 0; i < 100; ++i) {
    recorder.add(attempt({.group = "busy", .end = 500ms}));
    recorder.add(attempt({.group = "rare-" + std::to_string(i), .end = 1ms}));
  }
  const Json data = Json::parse(recorder.json({.groups = 101}));
  ASSERT_EQ(data["groups"].size(), 5U);
  EXPECT_EQ(data["groups"][0]["name"].text(), "busy");
  EXPECT_EQ(data["groups"][0]["attempts"].number(), 100);
  EXPECT_EQ(data["groups"][0]["partial"].number(), 0);
  double in_groups = data["others"]["attempts"].number();
  for (const Json& group : data["groups"]) in_groups += group["attempts"].number();
  EXPECT_EQ(in_groups, 200) << "none is lost, none is counted twice";
  EXPECT_EQ(data["run"]["groups"].number(), 101);
}

TEST(RunRecorder, ALaneWithoutAllItsBarsHasTheirShape) {
  RunRecorder::Bounds bounds;
  bounds.kept = {.first = 2, .longest_runs = 1, .longest_waits = 0};
  RunRecorder recorder({}, bounds);
  for (int i = 0; i < 100; ++i) {
    recorder.add(attempt({.group = "many", .start = i * 10ms, .end = (i + 1) * 10ms}));
  }
  const Json data = Json::parse(recorder.json());
  EXPECT_LE(data["kept"]["id"].size(), 3U);
  const Json& strip = data["groups"][0]["strip"];
  double sum = 0;
  for (const Json& value : strip["running"]) sum += value.number();
  EXPECT_NEAR(sum * strip["width"].number(), 1'000'000, 5000);
}

TEST(RunRecorder, ALongNameIsCutAndStillTellsGroupsApart) {
  RunRecorder recorder({});
  const std::string same(300, 'x');
  recorder.add(attempt({.id = same + "ü", .group = same + "1"}));
  recorder.add(attempt({.id = same, .group = same + "2"}));
  const Json data = Json::parse(recorder.json());
  ASSERT_EQ(data["groups"].size(), 2U);
  EXPECT_LT(data["groups"][0]["name"].text().size(), 300U);
  EXPECT_NE(data["groups"][0]["name"].text(), data["groups"][1]["name"].text());
}

TEST(RunRecorder, KeepsTheLastLinesOfWhatAFailureWrote) {
  RunRecorder recorder({});
  std::string output;
  for (int line = 0; line < 1000; ++line) output += "line " + std::to_string(line) + "\n";
  recorder.add(attempt({.outcome = AttemptOutcome::kFailed, .error_output = output}));
  const std::string kept = Json::parse(recorder.json())["failures"][0]["output"].text();
  EXPECT_LE(kept.size(), 2000U);
  EXPECT_TRUE(kept.starts_with("line ")) << "whole lines";
  EXPECT_TRUE(kept.ends_with("line 999\n"));
}

TEST(RunRecorder, TimesThatContradictEachOtherArePutInOrder) {
  RunRecorder recorder({});
  LoggedAttempt backwards = attempt({.queued = 50ms, .start = 30ms, .end = 10ms});
  recorder.add(backwards);
  LoggedAttempt never_began = attempt({.outcome = AttemptOutcome::kCancelled});
  never_began.start = {};
  never_began.end = {};
  recorder.add(never_began);
  LoggedAttempt unset;
  recorder.add(unset);
  const Json data = Json::parse(recorder.json());
  EXPECT_EQ(data["run"]["cancelled"].number(), 1);
  for (const Json& wait : data["kept"]["wait"]) EXPECT_GE(wait.number(), 0);
  for (const Json& run : data["kept"]["run"]) EXPECT_GE(run.number(), 0);
}

// Every name as long as it may be, every failure with output, and nothing but groups that are new.
TEST(RunRecorder, WhateverTheRunThePageAndTheMemoryHaveABound) {
  RunRecorder recorder({});
  const std::int64_t before = resident_bytes();
  const std::string long_name(200, 'n');
  const std::string output(5000, 'e');
  for (int i = 0; i < 200'000; ++i) {
    const bool failed = i % 10 == 0;
    recorder.add(attempt({.id = long_name + std::to_string(i),
                          .group = long_name + std::to_string(i % 50'000),
                          .queued = milliseconds(i / 10),
                          .start = milliseconds(i / 10 + i % 97),
                          .end = milliseconds(i / 10 + i % 97 + i % 89),
                          .outcome = failed ? AttemptOutcome::kFailed : AttemptOutcome::kOk,
                          .error_output = failed ? output : ""}));
  }
  if (!kSanitized) {
    EXPECT_LT(resident_bytes() - before, 24 << 20);
  }
  const std::string page = recorder.html();
  EXPECT_LT(page.size(), 4U << 20);
  const Json data = data_of(page);
  EXPECT_LE(data["kept"]["id"].size(), 7000U);
  EXPECT_LE(data["series"]["running"].size(), 1000U);
  EXPECT_EQ(data["groups"].size(), 1000U);
  EXPECT_EQ(data["failures"].size(), 500U);
  EXPECT_EQ(data["run"]["failed"].number(), 20'000);
}

TEST(RunRecorder, AMillionUsualAttemptsMakeAPageBelowThreeMegabytes) {
  RunRecorder recorder({});
  LoggedAttempt one = attempt({});
  for (int i = 0; i < (kSanitized ? 100'000 : 1'000'000); ++i) {
    one.id = "invoice-" + std::to_string(i);
    one.group = "tenant-" + std::to_string(i % 300);
    one.start = kStart + milliseconds(i / 100);
    one.end = one.start + milliseconds(20 + i % 7);
    one.queued = one.start - milliseconds(i % 50);
    recorder.add(one);
  }
  EXPECT_LT(recorder.html().size(), 3U << 20);
}

TEST(RunRecorder, WritesTheFileOrSaysWhyNot) {
  const TemporaryFolder folder;
  RunRecorder recorder({.title = "x"});
  recorder.add(attempt({}));
  ASSERT_TRUE(recorder.write_html(folder.file("report.html")).ok());
  EXPECT_EQ(folder.read("report.html"), recorder.html());
  const Result<void> failed = recorder.write_html(folder.file("missing/report.html"));
  ASSERT_FALSE(failed.ok());
  EXPECT_NE(failed.error().message.find("missing/report.html"), std::string::npos);
}

}  // namespace
}  // namespace keyway
