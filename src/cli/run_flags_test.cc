#include "cli/run_flags.h"

#include <gtest/gtest.h>

#include "cli/common_options.h"
#include "cli/program.h"
#include "cli/run_spec.h"
#include "support/fake_console.h"
#include "support/temporary_folder.h"

namespace keyway::cli {
namespace {

using namespace std::chrono_literals;
using run::HandlerKind;
using Words = std::vector<std::string>;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Runs the command line through the real program, and keeps what a run would be asked to do.
class RunFlagsTest : public ::testing::Test {
 protected:
  Result<RunFlags> parse(Words words) {
    std::optional<Result<RunFlags>> kept;
    const Program program("1", "test", {{.spec = run_spec(), .run = [&](const Invocation& call) {
                                           kept = run_flags(call);
                                           return ExitCode::kOk;
                                         }}});
    words.insert(words.begin(), "run");
    fake.err.clear();
    static_cast<void>(program.run(words, fake.console));
    if (!kept) return Error{ErrorCode::kInvalidArgument, fake.err};
    return *kept;
  }
  std::string error(const Words& words) {
    const auto flags = parse(words);
    return flags ? "(none)" : flags.error().message;
  }

  const TemporaryFolder folder;
  FakeConsole fake{folder.path()};
};

TEST_F(RunFlagsTest, WithoutFlagsEverythingHasItsBuiltInValue) {
  const auto flags = parse({"orders.jsonl", "--", "bill", "-x"});
  ASSERT_TRUE(flags) << flags.error().message;
  const run::RunOptions& options = flags->options;
  EXPECT_EQ(options.sources, Words{"orders.jsonl"});
  EXPECT_EQ(options.argv, (Words{"bill", "-x"}));
  EXPECT_EQ(options.handler, HandlerKind::kSpawn);
  EXPECT_EQ(options.jobs, usable_processors());
  EXPECT_EQ(options.key, "");
  EXPECT_EQ(options.key_missing, KeyMissing::kFail);
  EXPECT_EQ(options.order, Order::kKey);
  EXPECT_EQ(options.delivery, Delivery::kAtLeastOnce);
  EXPECT_EQ(options.on_dead, OnDead::kContinue);
  EXPECT_EQ(options.retries, 3);
  EXPECT_EQ(options.backoff.first, 500ms);
  EXPECT_EQ(options.grace, 30s);
  EXPECT_EQ(options.timeout, 0s);
  EXPECT_EQ(options.commit_interval, 1s);
  EXPECT_EQ(options.max_in_flight, 10'000u);
  EXPECT_EQ(options.max_in_flight_bytes, std::size_t{256} << 20);
  EXPECT_EQ(options.limits.standard.limit, 1);
  EXPECT_EQ(options.dead, "");
  EXPECT_EQ(options.dedup, "");
  EXPECT_TRUE(options.prints_output);
}

TEST_F(RunFlagsTest, EveryFlagArrives) {
  const auto flags = parse({"a.jsonl",
                            "b.jsonl",
                            "--key",
                            ".user",
                            "--group=.region",
                            "--key-missing",
                            "nobody",
                            "--order",
                            "partition",
                            "--follow",
                            "-j",
                            "7",
                            "--limit",
                            "2",
                            "--retries",
                            "0",
                            "--backoff",
                            "1s..2s",
                            "--timeout",
                            "1m",
                            "--grace",
                            "5s",
                            "--halt",
                            "soon,fail=10%",
                            "--delivery",
                            "at-most-once",
                            "--dead",
                            "log",
                            "--on-dead",
                            "park",
                            "--dedup",
                            "sqlite:ids.db",
                            "--commit-interval",
                            "100ms",
                            "--max-inflight",
                            "500",
                            "--max-inflight-bytes",
                            "1MiB",
                            "--state",
                            "dir",
                            "--fresh",
                            "--json",
                            "--shell",
                            "--",
                            "bill {}"});
  ASSERT_TRUE(flags) << flags.error().message;
  const run::RunOptions& options = flags->options;
  EXPECT_EQ(options.sources, (Words{"a.jsonl", "b.jsonl"}));
  EXPECT_EQ(options.key, ".user");
  EXPECT_EQ(options.group, ".region");
  EXPECT_EQ(options.key_missing, KeyMissing::kName);
  EXPECT_EQ(options.missing_name, "nobody");
  EXPECT_EQ(options.order, Order::kPartition);
  EXPECT_TRUE(options.follow);
  EXPECT_EQ(options.jobs, 7);
  EXPECT_EQ(options.limits.standard.limit, 2);
  EXPECT_EQ(options.retries, 0);
  EXPECT_EQ(options.backoff.most, 2s);
  EXPECT_EQ(options.timeout, 1min);
  EXPECT_EQ(options.grace, 5s);
  EXPECT_TRUE(options.halt.percent);
  EXPECT_EQ(options.delivery, Delivery::kAtMostOnce);
  EXPECT_EQ(options.dead, "log");
  EXPECT_EQ(options.on_dead, OnDead::kPark);
  EXPECT_EQ(options.dedup, "ids.db");
  EXPECT_EQ(options.commit_interval, 100ms);
  EXPECT_EQ(options.max_in_flight, 500u);
  EXPECT_EQ(options.max_in_flight_bytes, std::size_t{1} << 20);
  EXPECT_EQ(options.state_dir, "dir");
  EXPECT_TRUE(options.fresh);
  EXPECT_FALSE(options.prints_output);
  EXPECT_TRUE(options.shell);
}

TEST_F(RunFlagsTest, WorkersAndServersAreSixteenUnlessSaidOtherwise) {
  EXPECT_EQ(parse({"a", "--worker", "--", "w"})->options.jobs, 16);
  EXPECT_EQ(parse({"a", "--worker", "--", "w"})->options.handler, HandlerKind::kWorker);
  EXPECT_EQ(parse({"a", "--http", "http://localhost/"})->options.jobs, 16);
  EXPECT_EQ(parse({"a", "--http", "http://localhost/"})->options.handler, HandlerKind::kHttp);
  EXPECT_EQ(parse({"a", "--worker", "-j", "3", "--", "w"})->options.jobs, 3);
  fake.environment["KEYWAY_JOBS"] = "5";
  EXPECT_EQ(parse({"a", "--worker", "--", "w"})->options.jobs, 5);
}

TEST_F(RunFlagsTest, AHandlerIsNeededAndOnlyOne) {
  EXPECT_EQ(error({"a"}),
            "run: a command is missing\ntry: keyway run orders.jsonl --key .user -- ./bill.sh");
  EXPECT_EQ(error({"a", "--http", "http://h/", "--", "cat"}),
            "--http and a command: only one of them handles records\ntry: no -- cat");
  EXPECT_EQ(error({"a", "--http", "http://h/", "--worker"}),
            "--http and --worker: there is no command to run\ntry: --http http://h/");
  EXPECT_EQ(error({"a", "--worker", "--shell", "--", "cat"}),
            "--worker and --shell: a worker is a program\ntry: --worker -- sh -c \"cat\"");
}

TEST_F(RunFlagsTest, WhatIsNotInThisBuildIsSaid) {
  EXPECT_EQ(error({"kafka://localhost/orders?group=g", "--", "cat"}),
            "kafka://localhost/orders?group=g: Kafka is not in this build\n"
            "try: kcat -C ... | keyway run - --name NAME");
  EXPECT_EQ(error({"a", "--dead", "kafka:dead", "--", "cat"}),
            "--dead kafka:dead: Kafka is not in this build\ntry: --dead dead.jsonl");
  EXPECT_EQ(error({"a", "--dedup", "postgres://h/db", "--", "cat"}),
            "--dedup \"postgres://h/db\": PostgreSQL is not yet in this version\n"
            "try: --dedup none");
}

TEST_F(RunFlagsTest, WrongValuesAreNamed) {
  EXPECT_EQ(error({"a", "--dedup", "sqlite:", "--", "cat"}),
            "--dedup \"sqlite:\": must be none, or sqlite: and a file\ntry: --dedup none");
  EXPECT_EQ(error({"a", "--follow", "--until-end", "--", "cat"}),
            "--follow and --until-end exclude each other\ntry: one of them");
  EXPECT_EQ(error({"-", "-", "--", "cat"}), "standard input can be read only once\ntry: one -");
  EXPECT_EQ(error({"a", "--name", "x", "--", "cat"}),
            "--name \"x\": is for standard input\ntry: --state x.keyway");
  EXPECT_TRUE(error({"a", "--max-inflight-bytes", "1XB", "--", "cat"})
                  .starts_with("--max-inflight-bytes \"1XB\": must be a number of bytes"));
  EXPECT_TRUE(has(error({"a", "--commit-interval", "0", "--", "cat"}), "must be at least 1ms"));
  EXPECT_TRUE(error({"a", "--order", "size", "--", "cat"}).starts_with("--order \"size\""));
  EXPECT_TRUE(has(error({"--", "cat"}), "SOURCE is missing"));
}

}  // namespace
}  // namespace keyway::cli
