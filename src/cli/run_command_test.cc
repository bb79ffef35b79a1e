// `keyway run` from its command line to its exit code, with real processes.
#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>

#include <gtest/gtest.h>

#include "cli/program.h"
#include "support/fake_console.h"
#include "support/temporary_folder.h"

namespace keyway::cli {
namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class RunCommand : public ::testing::Test {
 protected:
  // What handlers print would go to the test's own output: they write to files.
  int run(std::vector<std::string> words, const std::vector<std::string>& command = {}) {
    words.insert(words.begin(), {"run", folder.file("orders.jsonl")});
    if (!command.empty()) words.emplace_back("--");
    words.insert(words.end(), command.begin(), command.end());
    fake.out.clear();
    fake.err.clear();
    return static_cast<int>(keyway_program().run(words, fake.console));
  }
  // Appends each record to the file `seen`, and does what `then` says.
  std::vector<std::string> see(const std::string& then = "true") {
    return {"/bin/sh", "-c",
            "read -r line; echo \"$line\" >> " + folder.file("seen") + "; " + then};
  }
  std::vector<std::string> seen() {
    std::vector<std::string> lines;
    std::istringstream text(folder.read("seen"));
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    return lines;
  }
  void orders(const std::string& lines) { folder.write("orders.jsonl", lines); }
  bool exists(const std::string& name) { return std::filesystem::exists(folder.file(name)); }

  const TemporaryFolder folder;
  FakeConsole fake{folder.path()};
};

constexpr const char* kThree =
    "{\"u\":\"a\",\"n\":1}\n{\"u\":\"b\",\"n\":2}\n{\"u\":\"a\",\"n\":3}\n";

TEST_F(RunCommand, EndsWithZeroWhenAllAreHandled) {
  orders(kThree);
  EXPECT_EQ(run({"--key", ".u", "-j", "4"}, see()), 0) << fake.err;
  EXPECT_TRUE(fake.err.starts_with("done in ")) << fake.err;
  EXPECT_TRUE(has(fake.err, ": 3 records, 2 keys, ")) << fake.err;
  EXPECT_TRUE(has(fake.err, "\n  ok 3  dead 0  resumed-past 0\n  handler  p50 ")) << fake.err;
  EXPECT_TRUE(has(fake.err, "\n  waiting  p50 ")) << fake.err;
  EXPECT_EQ(fake.out, "");
  EXPECT_EQ(seen().size(), 3u);
  for (const char* const name : {"checkpoint", "joblog.jsonl", "lock"}) {
    EXPECT_TRUE(exists(std::string("orders.jsonl.keyway/") + name)) << name;
  }
  EXPECT_FALSE(exists("orders.jsonl.keyway/dead.jsonl"));
}

TEST_F(RunCommand, EndsWithOneAndSaysWhereDeadLettersAre) {
  orders(kThree);
  EXPECT_EQ(run({"--key", ".u", "--retries", "0"}, see("test {.n} != 2")), 1);
  const std::string state = folder.file("orders.jsonl.keyway");
  EXPECT_TRUE(has(fake.err, "\n  ok 2  dead 1  resumed-past 0\n")) << fake.err;
  EXPECT_TRUE(has(
      fake.err, "\n  dead letters: " + state + "/dead.jsonl  (keyway dead replay " + state + ")\n"))
      << fake.err;
  const std::string letter = folder.read("orders.jsonl.keyway/dead.jsonl");
  EXPECT_TRUE(letter.starts_with("{\"id\":\"f:2\",\"key\":\"b\",")) << letter;
  EXPECT_TRUE(has(letter, "\"cause\":\"exit 1\",\"exit\":1,")) << letter;
}

TEST_F(RunCommand, RecordsOfOneKeyAreInOrder) {
  std::string lines;
  for (int n = 0; n < 40; ++n) {
    lines += "{\"u\":" + std::to_string(n % 3) + ",\"n\":" + std::to_string(100 + n) + "}\n";
  }
  orders(lines);
  EXPECT_EQ(run({"--key", ".u", "-j", "8"}, see()), 0);
  std::map<std::string, std::string> last;
  for (const std::string& line : seen()) {
    std::string& before = last[line.substr(0, line.find(','))];
    EXPECT_LT(before, line);
    before = line;
  }
  EXPECT_EQ(last.size(), 3u);
}

TEST_F(RunCommand, ASecondRunSaysThatAllIsDone) {
  orders(kThree);
  EXPECT_EQ(run({"--key", ".u"}, see()), 0);
  EXPECT_EQ(run({"--key", ".u"}, see()), 0);
  EXPECT_TRUE(has(fake.err, "orders.jsonl: all 3 records are done already\n")) << fake.err;
  EXPECT_TRUE(has(fake.err, "\n  ok 0  dead 0  resumed-past 3\n")) << fake.err;
  EXPECT_EQ(seen().size(), 3u);
  EXPECT_EQ(run({"--key", ".u", "--fresh"}, see()), 0);
  EXPECT_EQ(seen().size(), 6u);
}

TEST_F(RunCommand, WhatIsAppendedIsHandledByTheNextRunWhichSaysWhereItBegins) {
  orders(kThree);
  EXPECT_EQ(run({"--key", ".u"}, see()), 0);
  orders(std::string(kThree) + "{\"u\":\"c\",\"n\":4}\n");
  EXPECT_EQ(run({"--key", ".u"}, see()), 0);
  EXPECT_TRUE(has(fake.err, "keyway: resuming ")) << fake.err;
  EXPECT_TRUE(has(fake.err, "orders.jsonl at line 4: 3 records are done already\n")) << fake.err;
  EXPECT_EQ(seen().back(), "{\"u\":\"c\",\"n\":4}");
  EXPECT_EQ(seen().size(), 4u);
}

TEST_F(RunCommand, FreshPutsDeadLettersAside) {
  orders(kThree);
  EXPECT_EQ(run({"--key", ".u", "--retries", "0"}, {"false"}), 1);
  EXPECT_EQ(run({"--key", ".u", "--fresh"}, {"true"}), 0);
  EXPECT_TRUE(has(fake.err, "dead.jsonl.old now\n")) << fake.err;
  EXPECT_FALSE(exists("orders.jsonl.keyway/dead.jsonl"));
  EXPECT_TRUE(has(folder.read("orders.jsonl.keyway/dead.jsonl.old"), "\"f:3\""));
}

TEST_F(RunCommand, EndsWithTwoBeforeAnythingIsMadeIfAFlagIsWrong) {
  orders(kThree);
  EXPECT_EQ(run({"--key", "user"}, {"true"}), 2);
  EXPECT_TRUE(has(fake.err, "keyway: --key: no JSON path: \"user\"")) << fake.err;
  EXPECT_EQ(run({"--lines", "--key", ".u"}, {"true"}), 2);
  EXPECT_TRUE(has(fake.err, "--key .u: a plain line has no parts\n  try: --key . ")) << fake.err;
  EXPECT_EQ(run({"--lines", "--group", ".u"}, {"true"}), 2);
  EXPECT_EQ(run({}, {"echo", "{nonsense}"}), 2);
  EXPECT_EQ(run({"--http", "nonsense"}), 2);
  folder.write("limits.toml", "[default]\nqueue = 1\n");
  EXPECT_EQ(run({"--limits", "limits.toml"}, {"true"}), 2);
  EXPECT_TRUE(has(fake.err, "the limits file has a queue")) << fake.err;
  EXPECT_FALSE(exists("orders.jsonl.keyway"));
}

TEST_F(RunCommand, EndsWithThreeIfASourceCannotBeOpened) {
  EXPECT_EQ(run({}, {"true"}), 3);
  EXPECT_TRUE(has(fake.err, "orders.jsonl: No such file or directory\n  try: ")) << fake.err;
  EXPECT_FALSE(exists("orders.jsonl.keyway"));
  std::filesystem::create_directory(folder.file("orders.jsonl"));
  EXPECT_EQ(run({}, {"true"}), 3);
  EXPECT_TRUE(has(fake.err, "orders.jsonl is a folder\n")) << fake.err;
}

TEST_F(RunCommand, EndsWithThreeIfTheHandlerCannotStart) {
  orders(kThree);
  EXPECT_EQ(run({}, {folder.file("nobody")}), 3);
  EXPECT_TRUE(has(fake.err, "nobody")) << fake.err;
  EXPECT_TRUE(has(fake.err, "\n  ok 0  dead 0  not run 3  ")) << fake.err;
  EXPECT_EQ(run({}, see()), 0) << "nothing was lost";
  EXPECT_EQ(seen().size(), 3u);
}

TEST_F(RunCommand, EndsWithThreeWhereAKeyIsMissingAndResumesThere) {
  orders("{\"u\":1}\n{\"v\":2}\n{\"u\":3}\n");
  EXPECT_EQ(run({"--key", ".u"}, see()), 3);
  EXPECT_TRUE(
      has(fake.err, "orders.jsonl:2: no value at .u\n  try: --key-missing dead|skip|NAME\n"))
      << fake.err;
  EXPECT_EQ(run({"--key", ".u", "--key-missing", "skip"}, see()), 0) << fake.err;
  EXPECT_TRUE(has(fake.err, "  skipped 1  ")) << fake.err;
  EXPECT_EQ(seen().size(), 2u);
}

TEST_F(RunCommand, ARecordWithoutAKeyMayDieOrHaveAName) {
  orders("{\"u\":1}\n{\"v\":2}\nnot JSON\n");
  EXPECT_EQ(run({"--key", ".u", "--key-missing", "dead"}, see()), 1);
  EXPECT_TRUE(has(fake.err, "\n  ok 1  dead 2  ")) << fake.err;
  const std::string letters = folder.read("orders.jsonl.keyway/dead.jsonl");
  EXPECT_TRUE(has(letters, "\"attempts\":0")) << letters;
  EXPECT_TRUE(has(letters, "\"record\":\"not JSON\"")) << letters;
  EXPECT_EQ(run({"--key", ".u", "--key-missing", "nobody", "--fresh"},
                see("echo $KEYWAY_KEY >> " + folder.file("keys"))),
            0);
  EXPECT_TRUE(has(folder.read("keys"), "nobody\n"));
}

TEST_F(RunCommand, ALineThatIsNotJsonIsNamed) {
  orders("{\"u\":1}\n{\"u\":\n");
  EXPECT_EQ(run({"--key", ".u"}, see()), 3);
  EXPECT_TRUE(has(fake.err, "orders.jsonl:2: ")) << fake.err;
  EXPECT_TRUE(has(fake.err, "\n  try: --key-missing dead|skip|NAME\n")) << fake.err;
}

TEST_F(RunCommand, EndsWithFourWhenItIsHalted) {
  orders(kThree);
  EXPECT_EQ(run({"--halt", "now,fail=1", "--retries", "0", "-j", "1"}, {"false"}), 4);
  EXPECT_TRUE(fake.err.starts_with("halted after ")) << fake.err;
  EXPECT_TRUE(has(fake.err, "  not run 2  ")) << fake.err;
  EXPECT_EQ(run({"--on-dead", "halt", "--retries", "0", "-j", "1"}, {"false"}), 4);
  EXPECT_TRUE(has(fake.err, "orders.jsonl:2 (--on-dead halt)")) << fake.err;
  EXPECT_EQ(run({}, {"true"}), 0);
}

TEST_F(RunCommand, EndsWithFiveWhenTheStateIsOfAnotherSourceOrKey) {
  orders(kThree);
  EXPECT_EQ(run({"--key", ".u"}, {"true"}), 0);
  EXPECT_EQ(run({"--key", ".n"}, {"true"}), 5);
  EXPECT_TRUE(has(fake.err, "--key .u")) << fake.err;
  EXPECT_TRUE(has(fake.err, "\n  try: ")) << fake.err;
  EXPECT_EQ(run({"--key", ".u", "--order", "none"}, {"true"}), 5);
  orders("{\"u\":\"z\"}\n");
  EXPECT_EQ(run({"--key", ".u"}, {"true"}), 5);
  EXPECT_EQ(run({"--key", ".u", "--state", folder.file("other")}, {"true"}), 0);
}

TEST_F(RunCommand, ParkSparesTheRestOfAKeyForAReplayInOrder) {
  orders(kThree);
  EXPECT_EQ(run({"--key", ".u", "--on-dead", "park", "--retries", "0"}, see("test {.n} != 1")), 1);
  EXPECT_TRUE(has(fake.err, "\n  ok 1  dead 2  ")) << fake.err;
  EXPECT_TRUE(has(folder.read("orders.jsonl.keyway/dead.jsonl"), "parked")) << "the third one";
}

TEST_F(RunCommand, ATryThatHangsIsEndedAndTriedAgain) {
  orders("{\"u\":1}\n");
  fake.environment["KEYWAY_BACKOFF"] = "1ms";
  // On a busy machine a try that ends at once may take longer than its time, too.
  EXPECT_EQ(run({"--timeout", "100ms", "--retries", "100"},
                {"/bin/sh", "-c", "test $KEYWAY_ATTEMPT != 1 || sleep 60"}),
            0);
  EXPECT_TRUE(has(fake.err, "\n  ok 1 (1 after retry)  dead 0  ")) << fake.err;
  EXPECT_EQ(run({"--timeout", "100ms", "--retries", "0", "--fresh"}, {"sleep", "60"}), 1);
  EXPECT_TRUE(has(fake.err, "dead 1 (1 timed out)")) << fake.err;
}

TEST_F(RunCommand, DeadLettersMayGoElsewhere) {
  orders("{\"u\":1}\n");
  EXPECT_EQ(run({"--dead", folder.file("bad.jsonl"), "--retries", "0"}, {"false"}), 1);
  EXPECT_TRUE(has(folder.read("bad.jsonl"), "\"f:1\""));
  EXPECT_TRUE(has(fake.err, "(keyway dead replay " + folder.file("bad.jsonl") + ")")) << fake.err;
  EXPECT_EQ(run({"--dead", "log", "--retries", "0", "--fresh"}, {"false"}), 1);
  EXPECT_FALSE(exists("orders.jsonl.keyway/dead.jsonl"));
  EXPECT_FALSE(has(fake.err, "dead letters:")) << fake.err;
}

TEST_F(RunCommand, WhatWasHandledIsPassedOverWithDedup) {
  orders(kThree);
  const std::string ids = "sqlite:" + folder.file("ids.db");
  EXPECT_EQ(run({"--dedup", ids}, see()), 0);
  EXPECT_EQ(run({"--dedup", ids, "--fresh"}, see()), 0);
  EXPECT_TRUE(has(fake.err, "  handled before 3  ")) << fake.err;
  EXPECT_EQ(seen().size(), 3u);
}

TEST_F(RunCommand, PlainLinesAreRecordsToo) {
  orders("x\ny\nx\n");
  EXPECT_EQ(run({"--lines", "--key", "."}, see("echo $KEYWAY_KEY >> " + folder.file("keys"))), 0);
  EXPECT_TRUE(has(fake.err, ": 3 records, 2 keys, ")) << fake.err;
  EXPECT_TRUE(has(folder.read("keys"), "y\n"));
}

// Records 1 to 4 are of group a, 5 and 6 of group b. Those of a wait for 1, 2 and 5 to begin: two of a run at once, and
// b does not wait for a. With room for all four of a, the older records 3 and 4 would begin before 5.
TEST_F(RunCommand, GroupsHaveLimitsOfTheirOwn) {
  std::string lines;
  for (int n = 1; n <= 6; ++n) {
    lines +=
        std::string("{\"u\":\"") + (n <= 4 ? "a" : "b") + "\",\"n\":" + std::to_string(n) + "}\n";
  }
  orders(lines);
  folder.write("limits.toml", "[groups]\na = 2\n");
  const std::string begun = folder.file("begun.");
  const std::string script =
      "echo \"+$KEYWAY_GROUP\" >> " + folder.file("log") + "; touch " + begun +
      "{.n}; if [ $KEYWAY_GROUP = a ]; then for n in 1 2 5; do i=0; while [ ! -e " + begun +
      "$n ]; do i=$((i + 1)); [ $i -lt 3000 ] || exit 1; sleep 0.01; " +
      "done; done; fi; echo \"-$KEYWAY_GROUP\" >> " + folder.file("log");
  EXPECT_EQ(run({"--group", ".u", "--limits", "limits.toml", "-j", "4", "--retries", "0"},
                {"/bin/sh", "-c", script}),
            0)
      << fake.err;
  std::map<std::string, int> running;
  std::map<std::string, int> most;
  std::map<std::string, int> ran;
  std::istringstream log(folder.read("log"));
  for (std::string line; std::getline(log, line);) {
    const std::string group = line.substr(1);
    running[group] += line[0] == '+' ? 1 : -1;
    most[group] = std::max(most[group], running[group]);
    ran[group] += line[0] == '-' ? 1 : 0;
  }
  EXPECT_EQ(most, (std::map<std::string, int>{{"a", 2}, {"b", 1}}));
  EXPECT_EQ(ran, (std::map<std::string, int>{{"a", 4}, {"b", 2}}));
}

TEST_F(RunCommand, AtMostOnceForgetsWhatFails) {
  orders(kThree);
  EXPECT_EQ(run({"--delivery", "at-most-once", "--halt", "now,fail=1", "--retries", "0", "-j", "1"},
                see("false")),
            4);
  EXPECT_EQ(run({"--delivery", "at-most-once"}, see()), 0);
  EXPECT_EQ(seen().size(), 1u) << "all were committed before they began";
}

TEST_F(RunCommand, SeveralFilesAreRead) {
  orders(kThree);
  const std::string other = folder.write("more.jsonl", "{\"u\":\"a\",\"n\":9}\n");
  EXPECT_EQ(run({other, "--key", ".u"}, see("echo $KEYWAY_ID >> " + folder.file("ids"))), 0);
  EXPECT_TRUE(has(fake.err, ": 4 records, 2 keys, ")) << fake.err;
  EXPECT_TRUE(has(folder.read("ids"), "f1:1\n")) << folder.read("ids");
}

TEST_F(RunCommand, QuietSaysNothing) {
  orders("{}\n");
  EXPECT_EQ(run({"-q", "--retries", "0"}, {"false"}), 1);
  EXPECT_EQ(fake.err, "");
  EXPECT_EQ(fake.out, "");
}

TEST_F(RunCommand, VerboseSaysWhatWasAskedForAndEachTryThatFails) {
  orders("{}\n");
  fake.environment["KEYWAY_BACKOFF"] = "1ms";
  EXPECT_EQ(run({"-v", "--retries", "1"}, {"false"}), 1);
  EXPECT_TRUE(has(fake.err, "keyway: --backoff 1ms (KEYWAY_BACKOFF)\n")) << fake.err;
  EXPECT_TRUE(has(fake.err, "keyway: f:1: try 1: exit 1, will be tried again\n")) << fake.err;
  EXPECT_TRUE(has(fake.err, "keyway: f:1: try 2: exit 1, dead\n")) << fake.err;
}

TEST_F(RunCommand, SettingsComeFromTheProjectsFileToo) {
  orders("{}\n");
  folder.write("keyway.toml", "retries = 0\n\n[run]\non-dead = \"halt\"\n");
  EXPECT_EQ(run({}, {"false"}), 4) << fake.err;
}

TEST_F(RunCommand, JsonIsTheOnlyThingOnStandardOutput) {
  orders("{\"u\":1}\n");
  EXPECT_EQ(run({"--json", "--retries", "0", "--progress", "json", "--key", ".u"},
                {"/bin/sh", "-c", "echo noise; false"}),
            1);
  EXPECT_TRUE(fake.out.starts_with(
      "{\"ending\":\"finished\",\"exit_code\":1,\"records\":1,\"keys\":1,\"ok\":0,"))
      << fake.out;
  EXPECT_TRUE(has(fake.out, "\"dead\":1,")) << fake.out;
  EXPECT_TRUE(has(fake.out, "\"handler_ms\":{")) << fake.out;
  EXPECT_TRUE(has(fake.out, "dead.jsonl\",")) << fake.out;
  EXPECT_TRUE(fake.out.ends_with("}\n"));
  EXPECT_TRUE(fake.err.starts_with("{\"type\":\"progress\",\"name\":\"orders.jsonl\"")) << fake.err;
  EXPECT_TRUE(has(fake.err, "\"dead\":1,")) << fake.err;
  EXPECT_TRUE(has(fake.err, "\"keys\":1,\"keys_waiting\":0,")) << fake.err;
}

TEST_F(RunCommand, WritesAReportOfRecordsAndKeys) {
  orders(kThree);
  EXPECT_EQ(run({"--key", ".u", "--report", folder.file("r.html")}, {"true"}), 0);
  EXPECT_TRUE(has(fake.err, "\n  report: " + folder.file("r.html") + "\n"));
  const std::string page = folder.read("r.html");
  EXPECT_TRUE(has(page, "3 records in 2 keys ended in ")) << page.substr(0, 2000);
  EXPECT_TRUE(has(page, "\"watermark\":["));
  EXPECT_TRUE(has(page, "keyway run"));
}

TEST_F(RunCommand, ADryRunTellsKeysAndLanesAndHandlesNothing) {
  orders(kThree);
  EXPECT_EQ(run({"-n", "--key", ".u", "-j", "8", "--limit", "3"}, see()), 0);
  EXPECT_TRUE(fake.out.starts_with("f:1  key a\nf:2  key b\nf:3  key a\n")) << fake.out;
  EXPECT_TRUE(has(fake.out,
                  "orders.jsonl: 3 records with 2 keys, 8 at once; nothing was run\n"
                  "  key  at once    records\n"
                  "  a          3          2\n"
                  "  b          3          1\n"))
      << fake.out;
  EXPECT_EQ(run({"-n", "--key", ".u", "--group", ".n", "--json"}, see()), 0);
  EXPECT_TRUE(has(fake.out, "{\"key\":\"a\",\"group\":\"1\",\"limit\":1,\"records\":2}"))
      << fake.out;
  EXPECT_FALSE(exists("seen"));
  EXPECT_FALSE(exists("orders.jsonl.keyway"));
}

// ---- workers

constexpr const char* kReady = R"(echo '{"v":1,"type":"ready"}'; read -r hello; )";

TEST_F(RunCommand, AWorkerHandlesManyRecords) {
  orders(kThree);
  const std::string worker =
      std::string(kReady) +
      R"(while read -r job; do id=${job#*\"id\":\"}; id=${id%%\"*}; echo "{\"id\":\"$id\",\"ok\":true}"; )"
      "echo $id >> " +
      folder.file("seen") + "; done; echo end >> " + folder.file("seen");
  EXPECT_EQ(run({"--key", ".u", "--worker", "-j", "1"}, {"/bin/sh", "-c", worker}), 0) << fake.err;
  EXPECT_EQ(seen(), (std::vector<std::string>{"f:1", "f:2", "f:3", "end"}))
      << "the end of its input lets it finish";
}

TEST_F(RunCommand, AWorkerThatDiesOrWritesGarbageEndsTheRunAndLosesNothing) {
  orders(kThree);
  EXPECT_EQ(run({"--worker", "-j", "1", "--retries", "100"}, {"/bin/sh", "-c", "exit 3"}), 3);
  EXPECT_TRUE(has(fake.err, "exit 3")) << fake.err;
  EXPECT_EQ(run({"--worker", "-j", "1", "--retries", "100"},
                {"/bin/sh", "-c", std::string(kReady) + "echo garbage"}),
            3);
  EXPECT_TRUE(has(fake.err, "garbage")) << fake.err;
  EXPECT_EQ(run({}, see()), 0);
  EXPECT_EQ(seen().size(), 3u);
}

}  // namespace
}  // namespace keyway::cli
