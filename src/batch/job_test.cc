#include "batch/job.h"

#include <gtest/gtest.h>

namespace keyway::batch {
namespace {

using std::chrono::milliseconds;

class JobTest : public ::testing::Test {
 protected:
  Result<void> parse(std::string text) {
    const std::size_t size = text.size();
    text.resize(size + JobParser::kPadding);
    return parser_.parse({text.data(), size}, 42, job_);
  }
  std::string error(const std::string& text) {
    const Result<void> parsed = parse(text);
    return parsed.ok() ? "no error" : parsed.error().message;
  }

  JobParser parser_;
  Job job_;
};

TEST_F(JobTest, HasAllItsFields) {
  ASSERT_TRUE(
      parse(R"({"id":"a1","group":"db","cmd":["pg_dump","a b",""],"env":{"A":"1","B":"x=y"},)"
            R"("cwd":"/tmp","timeout":"1.5m","retries":0,"weight":3})")
          .ok());
  EXPECT_EQ(job_.id, "a1");
  EXPECT_EQ(job_.group, "db");
  EXPECT_EQ(job_.argv, (std::vector<std::string>{"pg_dump", "a b", ""}));
  EXPECT_EQ(job_.environment, (std::vector<std::string>{"A=1", "B=x=y"}));
  EXPECT_EQ(job_.directory, "/tmp");
  EXPECT_EQ(job_.timeout, milliseconds(90'000));
  EXPECT_EQ(job_.retries, 0);
  EXPECT_EQ(job_.weight, 3);
}

TEST_F(JobTest, HasDefaultsAndForgetsTheJobBefore) {
  ASSERT_TRUE(parse(R"({"id":"a","group":"g","cmd":["x"],"env":{"A":"1"},"cwd":"/","timeout":1,)"
                    R"("retries":1,"weight":2})")
                  .ok());
  ASSERT_TRUE(parse(R"( {"sh":"echo $HOME | wc"} )").ok());
  EXPECT_EQ(job_.id, "42");
  EXPECT_EQ(job_.group, "default");
  EXPECT_EQ(job_.argv, (std::vector<std::string>{"/bin/sh", "-c", "echo $HOME | wc"}));
  EXPECT_TRUE(job_.is_shell);
  EXPECT_TRUE(job_.environment.empty());
  EXPECT_EQ(job_.directory, "");
  EXPECT_FALSE(job_.timeout.has_value());
  EXPECT_FALSE(job_.retries.has_value());
  EXPECT_EQ(job_.weight, 1);
}

TEST_F(JobTest, NumbersCanBeNames) {
  ASSERT_TRUE(parse(R"({"id":17,"group":-3,"sh":"x"})").ok());
  EXPECT_EQ(job_.id, "17");
  EXPECT_EQ(job_.group, "-3");
}

TEST_F(JobTest, ATimeoutIsSecondsOrAText) {
  for (const auto& [text, expected] : std::vector<std::pair<std::string, int>>{{"0", 0},
                                                                               {"2", 2000},
                                                                               {"0.25", 250},
                                                                               {"1e2", 100'000},
                                                                               {"\"500ms\"", 500},
                                                                               {"\"0\"", 0}}) {
    ASSERT_TRUE(parse(R"({"sh":"x","timeout":)" + text + "}").ok()) << text;
    EXPECT_EQ(job_.timeout, milliseconds(expected)) << text;
  }
  for (const std::string text : {"-1", "\"-1s\"", "\"soon\"", "true", "[1]", "1e300"}) {
    EXPECT_NE(error(R"({"sh":"x","timeout":)" + text + "}").find("\"timeout\""), std::string::npos)
        << text;
  }
}

TEST_F(JobTest, AnUnknownFieldIsAnErrorWithASuggestion) {
  EXPECT_EQ(error(R"({"cmnd":["x"]})"), "unknown field \"cmnd\"\n  try: \"cmd\"");
  EXPECT_EQ(error(R"({"cmd":["x"],"tiemout":3})"), "unknown field \"tiemout\"\n  try: \"timeout\"");
  EXPECT_EQ(error(R"({"cmd":["x"],"banana":3})"),
            "unknown field \"banana\"\n  try: one of id, group, cmd, sh, env, cwd, timeout, "
            "retries, weight");
}

TEST_F(JobTest, ExactlyOneOfCmdAndSh) {
  EXPECT_EQ(error(R"({"cmd":["x"],"sh":"y"})"),
            "both \"cmd\" and \"sh\" are there\n  try: leave one of them");
  EXPECT_NE(error(R"({"id":"a"})").find("nothing to run"), std::string::npos);
  EXPECT_NE(error(R"({"cmd":["x"],"cmd":["y"]})").find("\"cmd\" is there twice"),
            std::string::npos);
}

TEST_F(JobTest, WhatIsWrongIsSaid) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {R"({"cmd":["x"]})"
       "x",
       "no valid JSON"},
      {R"({"cmd":["x"])", "no valid JSON"},
      {"[]", "a job must be a JSON object"},
      {"7", "a job must be a JSON object"},
      {R"({"cmd":"echo hi"})", "\"cmd\" must be a list"},
      {R"({"cmd":[]})", "names no program"},
      {R"({"cmd":[""]})", "names no program"},
      {R"({"cmd":["sleep",5]})", "has 5, which is no text\n  try: write it in quotes"},
      {"{\"cmd\":[\"a\\u0000b\"]}", "has a NUL"},
      {R"({"sh":""})", "\"sh\" is empty"},
      {R"({"sh":["x"]})", "\"sh\" must be a text"},
      {R"({"sh":"x","env":["A=1"]})", "\"env\" must be an object"},
      {R"({"sh":"x","env":{"A":1}})", "a value for \"A\" that is no text"},
      {R"({"sh":"x","env":{"A=B":"1"}})", "no name of a variable"},
      {R"({"sh":"x","cwd":""})", "\"cwd\" must be"},
      {R"({"sh":"x","retries":-1})", "\"retries\" is -1; it must be a whole number from 0"},
      {R"({"sh":"x","retries":1.5})", "\"retries\" is 1.5"},
      {R"({"sh":"x","weight":0})", "\"weight\" is 0; it must be a whole number from 1"},
      {R"({"sh":"x","id":""})", "\"id\" must have 1 to 65535 bytes"},
      {R"({"sh":"x","group":null})", "\"group\" must be a text"},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_NE(error(text).find(expected), std::string::npos) << text << ": " << error(text);
    EXPECT_NE(error(text).find("\n  try: "), std::string::npos) << error(text);
  }
}

}  // namespace
}  // namespace keyway::batch
