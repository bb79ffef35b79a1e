#include "cli/progress_view.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "support/fake_console.h"

namespace keyway::cli {
namespace {

using std::chrono::milliseconds;

jobs::Progress at(int elapsed_ms) {
  return {.name = "jobs.jsonl",
          .total = 10,
          .ended = 5,
          .ok = 5,
          .jobs = 2,
          .elapsed = milliseconds(elapsed_ms)};
}

std::ptrdiff_t lines(const std::string& text) { return std::ranges::count(text, '\n'); }

TEST(ProgressMode, AutoIsABarOnATerminalThatCanShowOne) {
  FakeConsole fake;
  EXPECT_EQ(progress_mode("auto", false, fake.console), ProgressMode::kPlain);
  fake.console.err_is_terminal = true;
  EXPECT_EQ(progress_mode("auto", false, fake.console), ProgressMode::kBar);
  EXPECT_EQ(progress_mode("auto", true, fake.console), ProgressMode::kNone);
  fake.environment["TERM"] = "dumb";
  EXPECT_EQ(progress_mode("auto", false, fake.console), ProgressMode::kPlain);
  EXPECT_EQ(progress_mode("bar", false, fake.console), ProgressMode::kBar);
  EXPECT_EQ(progress_mode("json", true, fake.console), ProgressMode::kJson);
}

TEST(ProgressView, ABarIsDrawnAtMostTenTimesASecond) {
  FakeConsole fake;
  ProgressView view(ProgressMode::kBar, fake.console, Style{});
  for (int time = 0; time < 1000; ++time) view.update(at(time));
  // A drawing begins and ends at the beginning of the line.
  EXPECT_EQ(std::ranges::count(fake.err, '\r'), 2 * 10);
  EXPECT_EQ(lines(fake.err), 0);
}

TEST(ProgressView, ABarFitsTheTerminalAlsoAfterAResize) {
  FakeConsole fake;
  ProgressView view(ProgressMode::kBar, fake.console, Style{});
  int time = 0;
  for (const int columns : {120, 40, 20, 5, 200}) {
    fake.columns = columns;
    view.update(at(time += 100));
    const std::size_t end = fake.err.find("\x1b[J\r");
    ASSERT_NE(end, std::string::npos) << fake.err;
    EXPECT_LT(end - 1, static_cast<std::size_t>(columns));
    view.clear();
    fake.err.clear();
  }
}

TEST(ProgressView, ClearLeavesNothingAndOnlyOnce) {
  FakeConsole fake;
  {
    ProgressView view(ProgressMode::kBar, fake.console, Style{});
    view.update(at(0));
    fake.err.clear();
    view.clear();
    EXPECT_EQ(fake.err, "\r\x1b[J");
    view.clear();
  }
  EXPECT_EQ(fake.err, "\r\x1b[J");
}

TEST(ProgressView, TheDestructorClears) {
  FakeConsole fake;
  {
    ProgressView(ProgressMode::kBar, fake.console, Style{}).update(at(0));
  }
  EXPECT_TRUE(fake.err.ends_with("\r\x1b[J"));
}

TEST(ProgressView, ALogGetsALineEveryTenSecondsAndNoControlCharacters) {
  FakeConsole fake;
  ProgressView view(ProgressMode::kPlain, fake.console, Style{true});
  for (int time = 0; time < 35'000; time += 50) view.update(at(time));
  EXPECT_EQ(lines(fake.err), 3);
  EXPECT_EQ(fake.err.find('\x1b'), std::string::npos);
  EXPECT_EQ(fake.err.find('\r'), std::string::npos);
}

TEST(ProgressView, AShortRunLeavesNoLineInALog) {
  FakeConsole fake;
  ProgressView view(ProgressMode::kPlain, fake.console, Style{});
  for (int time = 0; time < 9'999; time += 50) view.update(at(time));
  view.finish(at(9'999));
  EXPECT_EQ(fake.err, "");
}

TEST(ProgressView, JsonIsAnObjectPerSecondAndALastOne) {
  FakeConsole fake;
  ProgressView view(ProgressMode::kJson, fake.console, Style{});
  for (int time = 0; time < 3'500; time += 50) view.update(at(time));
  view.finish(at(3'500));
  EXPECT_EQ(lines(fake.err), 4);
  EXPECT_TRUE(fake.err.starts_with("{\"type\":\"progress\""));
}

TEST(ProgressView, ARunThatNeverBeganHasNoLastObject) {
  FakeConsole fake;
  ProgressView view(ProgressMode::kJson, fake.console, Style{});
  view.finish({});
  EXPECT_EQ(fake.err, "");
}

TEST(ProgressView, NoneIsNothing) {
  FakeConsole fake;
  ProgressView view(ProgressMode::kNone, fake.console, Style{});
  for (int time = 0; time < 35'000; time += 50) view.update(at(time));
  view.finish(at(35'000));
  EXPECT_EQ(fake.err, "");
}

}  // namespace
}  // namespace keyway::cli
