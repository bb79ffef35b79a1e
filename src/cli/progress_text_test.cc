#include "cli/progress_text.h"

#include <gtest/gtest.h>

#include "cli/human_text.h"

namespace keyway::cli {
namespace {

using namespace std::chrono_literals;

jobs::Progress half_way() {
  return {.name = "jobs.jsonl",
          .total = 10'000,
          .ended = 6'102,
          .ok = 6'098,
          .retries = 8,
          .failed = 4,
          .running = 32,
          .jobs = 32,
          .groups = 211,
          .groups_waiting = 14,
          .elapsed = 14'600ms};
}

TEST(ProgressLine, SaysHowFarHowWellAndHowLong) {
  EXPECT_EQ(progress_line(half_way(), 418, 200, Style{}),
            "jobs.jsonl 61% 6,102/10,000  ok 6,098 retry 8 failed 4  run 32/32  "
            "groups 211 (14 waiting)  418/s  eta 0:10");
}

TEST(ProgressLine, AStreamHasKeysAndDeadLetters) {
  jobs::Progress progress = half_way();
  progress.name = "orders.jsonl";
  EXPECT_EQ(progress_line(progress, 418, 200, Style{}, kStreamWords),
            "orders.jsonl 61% 6,102/10,000  ok 6,098 retry 8 dead 4  run 32/32  "
            "keys 211 (14 waiting)  418/s  eta 0:10");
  progress.groups = progress.groups_waiting = 0;
  progress.total_is_estimate = true;
  EXPECT_EQ(progress_line(progress, 418, 200, Style{}, kStreamWords),
            "orders.jsonl 61% 6,102/~10,000  ok 6,098 retry 8 dead 4  run 32/32  418/s  eta 0:10");
}

TEST(ProgressLine, WithoutATotalSaysWhatItKnows) {
  jobs::Progress progress = half_way();
  progress.name = "-";
  progress.total.reset();
  progress.groups_waiting = 0;
  EXPECT_EQ(progress_line(progress, 418, 200, Style{}),
            "- 6,102  ok 6,098 retry 8 failed 4  run 32/32  groups 211  418/s");
}

TEST(ProgressLine, IsNeverWiderThanTheTerminalWhateverItsWidth) {
  jobs::Progress progress = half_way();
  for (const char* const name : {"jobs.jsonl", "日本語のとても長い名前.jsonl", "-"}) {
    progress.name = name;
    for (int columns = 1; columns <= 130; ++columns) {
      const std::string line = progress_line(progress, 418, columns, Style{});
      EXPECT_LE(display_width(line), columns) << line;
    }
  }
}

TEST(ProgressLine, LeavesOutWhatMattersLeastFirst) {
  EXPECT_EQ(progress_line(half_way(), 418, 80, Style{}),
            "jobs.jsonl 61% 6,102/10,000  ok 6,098 retry 8 failed 4  run 32/32  eta 0:10");
  EXPECT_EQ(progress_line(half_way(), 418, 60, Style{}),
            "jobs.jsonl 61% 6,102/10,000  ok 6,098 retry 8 failed 4");
  EXPECT_EQ(progress_line(half_way(), 418, 30, Style{}), "jobs.jsonl 61% 6,102/10,000");
  EXPECT_EQ(progress_line(half_way(), 418, 24, Style{}), "...sonl 61% 6,102/10,000");
}

TEST(ProgressLine, ColourTakesNoRoom) {
  const std::string plain_line = progress_line(half_way(), 418, 80, Style{});
  std::string line = progress_line(half_way(), 418, 80, Style{true});
  EXPECT_NE(line.find("\x1b[31mfailed 4\x1b[0m"), std::string::npos);
  for (const char* const code : {"\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[0m"}) {
    for (std::size_t at; (at = line.find(code)) != std::string::npos;) {
      line.erase(at, std::string_view(code).size());
    }
  }
  EXPECT_EQ(line, plain_line);
}

TEST(ProgressLine, IsAHundredPercentOnlyAtTheEnd) {
  jobs::Progress progress = half_way();
  progress.ended = 9'999;
  EXPECT_NE(progress_line(progress, 1, 200, Style{}).find(" 99% "), std::string::npos);
  progress.ended = 10'000;
  EXPECT_NE(progress_line(progress, 1, 200, Style{}).find(" 100% "), std::string::npos);
}

TEST(ProgressLine, ANameCannotSteerTheTerminal) {
  jobs::Progress progress = half_way();
  progress.name = "a\x1b[2J";
  EXPECT_EQ(progress_line(progress, 1, 200, Style{}).find('\x1b'), std::string::npos);
}

TEST(ProgressJson, IsOneObjectWithAllNumbers) {
  EXPECT_EQ(progress_json(half_way(), 418),
            R"({"type":"progress","name":"jobs.jsonl","total":10000,"ended":6102,"ok":6098,)"
            R"("retries":8,"failed":4,"running":32,"jobs":32,"groups":211,"groups_waiting":14,)"
            R"("elapsed_ms":14600,"per_second":418.000,"eta_s":10})");
}

TEST(ProgressJson, WhatIsUnknownIsNull) {
  const std::string json = progress_json({.name = "-"}, 0);
  EXPECT_NE(json.find("\"total\":null"), std::string::npos);
  EXPECT_NE(json.find("\"eta_s\":null"), std::string::npos);
}

TEST(RateMeter, IsTheRateOfTheLastTenSeconds) {
  RateMeter meter;
  EXPECT_EQ(meter.per_second(), 0);
  meter.add(0ms, 0);
  EXPECT_EQ(meter.per_second(), 0);
  for (int second = 1; second <= 30; ++second) {
    meter.add(std::chrono::seconds(second), static_cast<std::uint64_t>(second) * 100);
  }
  EXPECT_DOUBLE_EQ(meter.per_second(), 100);
  for (int second = 31; second <= 60; ++second) meter.add(std::chrono::seconds(second), 3000);
  EXPECT_DOUBLE_EQ(meter.per_second(), 0);
}

TEST(RateMeter, ManyReadingsInOneMomentAreOne) {
  RateMeter meter;
  meter.add(0ms, 0);
  for (int at = 1; at <= 1000; ++at) {
    meter.add(std::chrono::milliseconds(at), static_cast<std::uint64_t>(at));
  }
  EXPECT_NEAR(meter.per_second(), 1000, 1);
}

TEST(TimeLeft, IsUnknownWithoutATotalOrARate) {
  jobs::Progress progress = half_way();
  EXPECT_EQ(time_left(progress, 0), std::nullopt);
  EXPECT_EQ(time_left(progress, 3898), 1s);
  EXPECT_EQ(time_left(progress, 1e-9), std::nullopt);
  progress.total.reset();
  EXPECT_EQ(time_left(progress, 10), std::nullopt);
}

}  // namespace
}  // namespace keyway::cli
