// `keyway dead` from its command line to its exit code, after runs with real processes.
#include <filesystem>

#include <gtest/gtest.h>

#include "cli/program.h"
#include "jobs/held_folder.h"
#include "support/fake_console.h"
#include "support/temporary_folder.h"

namespace keyway::cli {
namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

struct DeadCommand : ::testing::Test {
  DeadCommand() { std::filesystem::current_path(folder.path()); }
  ~DeadCommand() override { std::filesystem::current_path("/"); }

  int run(const std::vector<std::string>& words) {
    fake.out.clear();
    fake.err.clear();
    return static_cast<int>(keyway_program().run(words, fake.console));
  }
  // Three records, of which those die that the file `poison` names; what is handled is in `log`.
  void make_letters() {
    folder.write("orders.jsonl",
                 "{\"n\":1,\"user\":\"a\"}\n{\"n\":2,\"user\":\"b\"}\n{\"n\":3,\"user\":\"a\"}\n");
    folder.write("poison", "1\n3\n");
    EXPECT_EQ(run({"run", "orders.jsonl", "--key", ".user", "--retries", "1", "--backoff",
                   "1ms..2ms", "-q", "--", "sh", "-c",
                   "if grep -qx $1 poison; then echo no $1 >&2; exit 7; fi; echo $1 $2 >>log", "sh",
                   "{.n}", "{key}"}),
              1)
        << fake.err;
    EXPECT_EQ(folder.read("log"), "2 b\n");
  }
  std::string ids() {
    EXPECT_EQ(run({"dead", "list", "orders.jsonl.keyway", "--json"}), 0);
    std::string found;
    for (std::size_t at = 0; (at = fake.out.find("{\"id\":\"", at)) != std::string::npos;) {
      at += 7;
      found += fake.out.substr(at, fake.out.find('"', at) - at) + " ";
    }
    return found;
  }

  const TemporaryFolder folder;
  FakeConsole fake{folder.path()};
};

TEST_F(DeadCommand, ListsWhatARunGaveUp) {
  make_letters();
  EXPECT_EQ(run({"dead", "list", "orders.jsonl.keyway"}), 0);
  EXPECT_TRUE(fake.out.starts_with("ID   KEY  TRIES  DIED ")) << fake.out;
  EXPECT_TRUE(has(fake.out, "\nf:1  a        2  20")) << fake.out;
  EXPECT_TRUE(has(fake.out, "\nf:3  a        2  20")) << fake.out;
  EXPECT_FALSE(has(fake.out, "f:2"));
  // Its source names it too, and so does the file itself.
  const std::string table = fake.out;
  EXPECT_EQ(run({"dead", "list", "orders.jsonl"}), 0);
  EXPECT_EQ(fake.out, table);
  EXPECT_EQ(run({"dead", "list", "orders.jsonl.keyway/dead.jsonl"}), 0);
  EXPECT_EQ(fake.out, table);
}

TEST_F(DeadCommand, ListTakesIdsKeysAndCauses) {
  make_letters();
  EXPECT_EQ(run({"dead", "list", "orders.jsonl.keyway", "f:3", "--json"}), 0);
  EXPECT_TRUE(fake.out.starts_with("{\"id\":\"f:3\",\"key\":\"a\"")) << fake.out;
  EXPECT_EQ(run({"dead", "list", "orders.jsonl.keyway", "--key", "b"}), 0);
  EXPECT_EQ(fake.out, "");
  EXPECT_TRUE(has(fake.err, "no such dead letter")) << fake.err;
  EXPECT_EQ(run({"dead", "list", "orders.jsonl.keyway", "--cause", "7"}), 0);
  EXPECT_TRUE(has(fake.out, "f:1")) << fake.out;
  EXPECT_EQ(run({"dead", "list", "orders.jsonl.keyway", "f:9"}), 2);
  EXPECT_TRUE(has(fake.err, "has no dead letter f:9")) << fake.err;
}

TEST_F(DeadCommand, ShowsEverythingAboutOne) {
  make_letters();
  EXPECT_EQ(run({"dead", "show", "orders.jsonl.keyway", "f:3"}), 0);
  EXPECT_TRUE(has(fake.out, "id        f:3\nkey       a\ntries     2\n")) << fake.out;
  EXPECT_TRUE(has(fake.out, "exit      7\n")) << fake.out;
  EXPECT_TRUE(has(fake.out, "stderr    \n  no 3\n")) << fake.out;
  EXPECT_TRUE(fake.out.ends_with("record    \n{\"n\":3,\"user\":\"a\"}\n")) << fake.out;
  EXPECT_EQ(run({"dead", "show", "orders.jsonl.keyway"}), 2);
}

TEST_F(DeadCommand, ReplaysAsTheRunWasStarted) {
  make_letters();
  folder.write("poison", "");
  // From another folder: the run's own holds.
  std::filesystem::current_path("/");
  EXPECT_EQ(run({"dead", "replay", folder.file("orders.jsonl.keyway")}), 0) << fake.err;
  EXPECT_EQ(folder.read("log"), "2 b\n1 a\n3 a\n");
  EXPECT_TRUE(has(fake.err, ": 2 records, 1 key, ")) << fake.err;
  std::filesystem::current_path(folder.path());
  EXPECT_EQ(ids(), "");
  EXPECT_EQ(run({"dead", "replay", "orders.jsonl.keyway"}), 0);
  EXPECT_TRUE(has(fake.err, "no dead letters")) << fake.err;
}

TEST_F(DeadCommand, WhatDiesAgainStaysAndIsStatusOne) {
  make_letters();
  folder.write("poison", "3\n");
  EXPECT_EQ(run({"dead", "replay", "orders.jsonl.keyway", "--retries", "0"}), 1);
  EXPECT_TRUE(has(fake.err, "(keyway dead replay ")) << fake.err;
  EXPECT_EQ(ids(), "f:3 ");
  EXPECT_TRUE(has(fake.out, "\"attempts\":3,")) << fake.out;
}

TEST_F(DeadCommand, AHandlerThatIsGivenReplacesTheRuns) {
  make_letters();
  EXPECT_EQ(run({"dead", "replay", "orders.jsonl.keyway", "f:1", "-q", "--", "sh", "-c",
                 "echo other $1 >>log", "sh", "{id}"}),
            0)
      << fake.err;
  EXPECT_EQ(folder.read("log"), "2 b\nother f:1\n");
  EXPECT_EQ(ids(), "f:3 ");
}

TEST_F(DeadCommand, WithoutACommandFileAHandlerMustBeGiven) {
  make_letters();
  std::filesystem::remove("orders.jsonl.keyway/command.json");
  EXPECT_EQ(run({"dead", "replay", "orders.jsonl.keyway"}), 2);
  EXPECT_TRUE(has(fake.err, "  try: keyway dead replay orders.jsonl.keyway -- COMMAND\n"))
      << fake.err;
  EXPECT_EQ(run({"dead", "replay", "orders.jsonl.keyway", "-q", "--", "sh", "-c",
                 "echo $1 $2 >>log", "sh", "{.n}", "{key}"}),
            0)
      << fake.err;
  EXPECT_EQ(folder.read("log"), "2 b\n1 a\n3 a\n");
}

TEST_F(DeadCommand, LettersInAFileOfTheirOwnAreFoundAndReplayed) {
  folder.write("orders.jsonl", "{\"n\":1}\n");
  EXPECT_EQ(run({"run", "orders.jsonl", "--dead", "letters.jsonl", "--retries", "0", "-q", "--",
                 "test", "-e", "repaired"}),
            1);
  EXPECT_EQ(run({"dead", "list", "orders.jsonl.keyway"}), 0);
  EXPECT_TRUE(has(fake.out, "f:1")) << fake.out;
  EXPECT_EQ(run({"dead", "list", "letters.jsonl"}), 0);
  EXPECT_TRUE(has(fake.out, "f:1")) << fake.out;
  folder.write("repaired", "");
  EXPECT_EQ(run({"dead", "replay", "orders.jsonl.keyway", "-q"}), 0) << fake.err;
  EXPECT_FALSE(std::filesystem::exists("letters.jsonl"));
}

TEST_F(DeadCommand, DiscardsOnlyWhatIsSaid) {
  make_letters();
  EXPECT_EQ(run({"dead", "discard", "orders.jsonl.keyway"}), 2);
  EXPECT_TRUE(has(fake.err, "--all")) << fake.err;
  EXPECT_EQ(run({"dead", "discard", "orders.jsonl.keyway", "f:1"}), 0);
  EXPECT_EQ(fake.err, "keyway: discarded 1 dead letter, 1 left\n");
  EXPECT_EQ(ids(), "f:3 ");
  EXPECT_EQ(run({"dead", "discard", "orders.jsonl.keyway", "--all", "--json"}), 0);
  EXPECT_EQ(fake.out, "{\"discarded\":1,\"left\":0}\n");
  EXPECT_EQ(ids(), "");
}

TEST_F(DeadCommand, AFolderThatARunHoldsIsStatusFive) {
  make_letters();
  jobs::HeldFolder run_of_another("orders.jsonl.keyway");
  ASSERT_TRUE(run_of_another.is_held());
  EXPECT_EQ(run({"dead", "discard", "orders.jsonl.keyway", "--all"}), 5);
  EXPECT_EQ(run({"dead", "replay", "orders.jsonl.keyway"}), 5);
  EXPECT_EQ(run({"dead", "list", "orders.jsonl.keyway"}), 0);
  run_of_another.release();
  EXPECT_EQ(ids(), "f:1 f:3 ");
}

TEST_F(DeadCommand, DamagedLinesAreNamedAndHideNothing) {
  make_letters();
  folder.write("orders.jsonl.keyway/dead.jsonl",
               "oops\n" + folder.read("orders.jsonl.keyway/dead.jsonl") + "{\"id\":");
  EXPECT_EQ(ids(), "f:1 f:3 ");
  EXPECT_TRUE(has(fake.err, "dead.jsonl:1: this is no dead letter")) << fake.err;
  EXPECT_TRUE(has(fake.err, "the last line is torn")) << fake.err;
}

TEST_F(DeadCommand, WhatCannotBeMeantIsStatusTwo) {
  make_letters();
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"dead"},
           {"dead", "list"},
           {"dead", "lst", "orders.jsonl.keyway"},
           {"dead", "list", "nowhere"},
           {"dead", "list", "orders.jsonl.keyway", "--retries", "3"},
           {"dead", "list", "orders.jsonl.keyway", "--", "true"},
           {"dead", "discard", "orders.jsonl.keyway", "--all", "f:1"}}) {
    EXPECT_EQ(run(words), 2) << words.back();
    EXPECT_TRUE(has(fake.err, "\n  try: ")) << fake.err;
  }
}

}  // namespace
}  // namespace keyway::cli
