#include "jobs/output_printer.h"

#include <csignal>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "jobs/ordered_output.h"
#include "support/temporary_folder.h"

namespace keyway::jobs {
namespace {

CapturedOutput captured(std::string_view text) {
  CapturedOutput output(4);  // most of it is in a file
  output.append(text);
  output.finish();
  return output;
}

struct Sheet final : Printout {
  Sheet(std::string_view out, std::string_view err) : texts{captured(out), captured(err)} {}
  std::uint64_t size(Stream stream) const override {
    return texts[static_cast<std::size_t>(stream)].size();
  }
  std::string_view read(Stream stream, std::uint64_t offset, std::span<char> buffer) override {
    return texts[static_cast<std::size_t>(stream)].read(offset, buffer);
  }
  void printed() override { ++times; }
  CapturedOutput texts[2];
  int times = 0;
};

// One file for stdout and stderr, so that their order shows.
struct Paper {
  TemporaryFolder folder;
  FileDescriptor file{open(folder.file("out").c_str(), O_RDWR | O_CREAT | O_APPEND, 0600)};
  std::string text() const { return folder.read("out"); }
};

struct Pipe {
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
    out = FileDescriptor(ends[0]);
    in = FileDescriptor(ends[1]);
  }
  std::string read_all() {
    std::string text;
    char buffer[4096];
    fcntl(out.get(), F_SETFL, O_NONBLOCK);
    for (ssize_t got = 0; (got = read(out.get(), buffer, sizeof buffer)) > 0;) {
      text.append(buffer, static_cast<std::size_t>(got));
    }
    return text;
  }
  FileDescriptor out, in;
};

TEST(OutputPrinter, PrintsWholeOutputsOneAfterTheOther) {
  const Paper paper;
  OutputPrinter printer(paper.file.get(), paper.file.get(), nullptr, {});
  Sheet first("out of the first\n", "err of the first\n");
  Sheet second("", "err of the second\n");
  printer.print(first);
  printer.print(second);
  printer.print_text(Stream::kOut, "a line\n");
  EXPECT_EQ(paper.text(), "out of the first\nerr of the first\nerr of the second\na line\n");
  EXPECT_EQ(first.times, 1);
  EXPECT_TRUE(printer.idle());
}

TEST(OutputPrinter, WaitsForASlowReaderWithoutBlocking) {
  EventLoop loop;
  Pipe pipe;
  OutputPrinter printer(pipe.in.get(), pipe.in.get(), &loop, {});
  const std::string large(300'000, 'x');
  Sheet sheet(large, "end");
  Sheet later("later", "");
  printer.print(sheet);
  printer.print(later);
  EXPECT_EQ(sheet.times, 0);
  std::string text;
  while (later.times == 0) {
    text += pipe.read_all();
    ASSERT_TRUE(loop.run_one());
  }
  text += pipe.read_all();
  EXPECT_EQ(text, large + "endlater");
}

TEST(OutputPrinter, SaysWhenTooMuchTextWaitsAndWhenItIsOut) {
  EventLoop loop;
  Pipe pipe;
  int drained = 0;
  OutputPrinter printer(pipe.in.get(), pipe.in.get(), &loop,
                        {.before_output = {}, .failed = {}, .drained = [&] { ++drained; }});
  const std::string line(64 * 1024, 'x');
  for (int i = 0; i < 4; ++i) printer.print_text(Stream::kOut, line);
  EXPECT_FALSE(printer.congested());
  for (int i = 0; i < 4; ++i) printer.print_text(Stream::kOut, line);
  EXPECT_TRUE(printer.congested());
  std::size_t got = 0;
  while (!printer.idle()) {
    got += pipe.read_all().size();
    ASSERT_TRUE(loop.run_one());
  }
  got += pipe.read_all().size();
  EXPECT_EQ(got, 8 * line.size());
  EXPECT_EQ(drained, 1);
}

TEST(OutputPrinter, TellsOnceThatNobodyReads) {
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  const Paper paper;
  Pipe pipe;
  pipe.out.close();
  std::vector<int> failures;
  OutputPrinter printer(pipe.in.get(), paper.file.get(), nullptr,
                        {.before_output = {},
                         .failed = [&](int error) { failures.push_back(error); },
                         .drained = {}});
  Sheet first("lost", "kept\n");
  Sheet second("lost too", "this too\n");
  printer.print(first);
  printer.print(second);
  EXPECT_EQ(failures, std::vector<int>{EPIPE});
  EXPECT_EQ(paper.text(), "kept\nthis too\n");
  std::signal(SIGPIPE, before);
}

TEST(OutputPrinter, GivingUpDropsWhatWaits) {
  EventLoop loop;
  Pipe pipe;
  OutputPrinter printer(pipe.in.get(), pipe.in.get(), &loop, {});
  Sheet sheet(std::string(300'000, 'x'), "");
  printer.print(sheet);
  EXPECT_EQ(sheet.times, 0);
  printer.give_up();
  EXPECT_EQ(sheet.times, 1);
  EXPECT_TRUE(printer.idle());
  EXPECT_FALSE(loop.run_one()) << "nothing is watched any more";
}

TEST(OrderedOutput, PrintsInTheOrderOfTheJobs) {
  const Paper paper;
  OutputPrinter printer(paper.file.get(), paper.file.get(), nullptr, {});
  std::vector<std::uint64_t> advanced;
  OrderedOutput* known = nullptr;
  OrderedOutput ordered(printer, [&] { advanced.push_back(known->next()); });
  known = &ordered;
  ordered.add(3, captured("three\n"), captured("three err\n"));
  ordered.add(2, captured("two\n"), captured(""));
  ordered.skip(4);
  EXPECT_EQ(paper.text(), "");
  EXPECT_FALSE(ordered.idle());
  ordered.add(1, captured("one\n"), captured(""));
  EXPECT_EQ(paper.text(), "one\ntwo\nthree\nthree err\n");
  EXPECT_TRUE(ordered.idle());
  EXPECT_EQ(ordered.next(), 5u);
  EXPECT_EQ(advanced, std::vector<std::uint64_t>{5});
}

TEST(OrderedOutput, AtTheEndWhatIsMissingIsPassedOver) {
  const Paper paper;
  OutputPrinter printer(paper.file.get(), paper.file.get(), nullptr, {});
  OrderedOutput ordered(printer, [] {});
  ordered.add(5, captured("five\n"), captured(""));
  ordered.add(3, captured("three\n"), captured(""));
  ordered.finish();
  EXPECT_EQ(paper.text(), "three\nfive\n");
}

TEST(OrderedOutput, AHundredThousandThatWaitedComeOutWithoutRecursion) {
  const Paper paper;
  OutputPrinter printer(paper.file.get(), paper.file.get(), nullptr, {});
  OrderedOutput ordered(printer, [] {});
  constexpr std::uint64_t kJobs = 100'000;
  const CapturedOutput nothing = captured("");
  for (std::uint64_t seq = 2; seq <= kJobs; ++seq) ordered.add(seq, captured("x"), nothing);
  ordered.add(1, captured("first"), nothing);
  EXPECT_EQ(paper.text().size(), 5 + kJobs - 1);
  EXPECT_TRUE(ordered.idle());
}

TEST(OrderedOutput, WaitsForASlowReader) {
  EventLoop loop;
  Pipe pipe;
  OutputPrinter printer(pipe.in.get(), pipe.in.get(), &loop, {});
  OrderedOutput ordered(printer, [] {});
  const std::string large(200'000, 'a');
  ordered.add(1, captured(large), captured(""));
  ordered.add(2, captured("b"), captured(""));
  EXPECT_FALSE(ordered.idle());
  std::string text;
  while (!ordered.idle()) {
    text += pipe.read_all();
    ASSERT_TRUE(loop.run_one());
  }
  text += pipe.read_all();
  EXPECT_EQ(text, large + "b");
}

}  // namespace
}  // namespace keyway::jobs
