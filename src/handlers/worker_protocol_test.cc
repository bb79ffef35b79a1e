#include "handlers/worker_protocol.h"

#include <gtest/gtest.h>

#include "handlers/call_fixture.h"

namespace keyway::run {
namespace {

using namespace std::chrono_literals;

std::string job(const std::string& value, Duration timeout = {}) {
  WorkerProtocol protocol;
  std::string line;
  const TestRecord record(value);
  EXPECT_TRUE(protocol.append_job(line, record.call(2), timeout));
  return line;
}

const std::string kHead =
    R"({"type":"job","id":"f:7","key":"u7","group":"vip","seq":7,"attempt":2)";

TEST(WorkerProtocol, HelloNamesRunWorkerAndWhatItMayHaveAtOnce) {
  EXPECT_EQ(WorkerProtocol::hello("r1", 3, 1),
            "{\"v\":1,\"type\":\"hello\",\"run\":\"r1\",\"worker\":3,\"max_inflight\":1}\n");
}

TEST(WorkerProtocol, ARecordThatIsJsonStaysAsItIs) {
  EXPECT_EQ(job(R"({"b": 1.50,"a":[ ]})"), kHead + R"(,"record":{"b": 1.50,"a":[ ]}})" + "\n");
  EXPECT_EQ(job("123456789012345678901234567890"),
            kHead + R"(,"record":123456789012345678901234567890})" + "\n");
}

TEST(WorkerProtocol, SpaceBehindJsonIsLeftOut) {
  EXPECT_EQ(job("{} \r\n"), kHead + R"(,"record":{}})" + "\n");
  EXPECT_EQ(job("no \r"), kHead + R"(,"record":"no \u000d"})" + "\n");
}

TEST(WorkerProtocol, ADeadlineIsThereOnlyWithATimeout) {
  EXPECT_EQ(job("1", 30s), kHead + R"(,"deadline_ms":30000,"record":1})" + "\n");
}

TEST(WorkerProtocol, ARecordThatIsNoJsonOnOneLineIsAString) {
  EXPECT_EQ(job("say \"hi\""), kHead + R"(,"record":"say \"hi\""})" + "\n");
  EXPECT_EQ(job("{\n}"), kHead + R"(,"record":"{\n}"})" + "\n");
  EXPECT_EQ(job(""), kHead + R"(,"record":""})" + "\n");
}

TEST(WorkerProtocol, ARecordThatIsNoTextIsBase64) {
  EXPECT_EQ(job("\xff"), kHead + R"(,"record_b64":"/w=="})" + "\n");
  EXPECT_EQ(job("\xff\xfe\xfd"), kHead + R"(,"record_b64":"//79"})" + "\n");
}

TEST(WorkerProtocol, ALineOverSixteenMebibytesIsNotMade) {
  WorkerProtocol protocol;
  std::string lines = "before";
  const TestRecord fits(std::string(WorkerProtocol::kLongestLine - 200, '1'));
  const TestRecord grows(std::string(WorkerProtocol::kLongestLine - 200, '"'));
  const TestRecord huge(std::string(WorkerProtocol::kLongestLine + 1, '1'));
  EXPECT_FALSE(protocol.append_job(lines, huge.call(), {}));
  EXPECT_FALSE(protocol.append_job(lines, grows.call(), {}));
  EXPECT_EQ(lines, "before");
  EXPECT_TRUE(protocol.append_job(lines, fits.call(), {}));
}

TEST(WorkerProtocol, AKeyThatIsNoTextDoesNotBreakTheLine) {
  WorkerProtocol protocol;
  std::string line;
  const TestRecord record("1", "f:7", "k\xff");
  EXPECT_TRUE(protocol.append_job(line, record.call(), {}));
  EXPECT_NE(line.find(R"("key":"k?")"), std::string::npos) << line;
}

class Answers : public ::testing::Test {
 protected:
  WorkerAnswer parse(const std::string& line) {
    text_ = line;
    text_.resize(line.size() + WorkerProtocol::kPadding, '}');
    return protocol_.parse(std::string_view(text_).substr(0, line.size()));
  }
  WorkerProtocol protocol_;
  std::string text_;
};

TEST_F(Answers, Ready) { EXPECT_EQ(parse(R"({"v":1,"type":"ready"})").kind, WorkerAnswer::kReady); }

TEST_F(Answers, DoneWithOutput) {
  const WorkerAnswer answer = parse(R"( {"out":{"a": 1.50},"ok":true, "id":"f:\u0037"} )");
  ASSERT_EQ(answer.kind, WorkerAnswer::kResult) << answer.fault;
  EXPECT_EQ(answer.id, "f:7");
  EXPECT_TRUE(answer.ok);
  EXPECT_EQ(answer.out, R"({"a": 1.50})");
}

TEST_F(Answers, OutputMayBeAnyValueAndNullIsNone) {
  EXPECT_EQ(parse(R"({"id":"a","ok":true,"out":"x"})").out, R"("x")");
  EXPECT_EQ(parse(R"({"id":"a","ok":true,"out":12 })").out, "12");
  EXPECT_EQ(parse(R"({"id":"a","ok":true,"out":[1, 2]})").out, "[1, 2]");
  EXPECT_EQ(parse(R"({"id":"a","ok":true,"out":null})").out, "");
}

TEST_F(Answers, FailedSaysWhyAndWhetherAndWhenToRetry) {
  WorkerAnswer answer =
      parse(R"({"id":"a","ok":false,"error":"402","retry":true,"retry_after_ms":500})");
  EXPECT_EQ(answer.kind, WorkerAnswer::kResult);
  EXPECT_FALSE(answer.ok);
  EXPECT_EQ(answer.error, "402");
  EXPECT_TRUE(answer.retry);
  EXPECT_EQ(answer.retry_after, 500ms);
  answer = parse(R"({"id":"a","ok":false})");
  EXPECT_TRUE(answer.retry);
  EXPECT_FALSE(answer.retry_after.has_value());
  answer = parse(R"({"id":"a","ok":false,"retry":false,"error":{"code": 4}})");
  EXPECT_FALSE(answer.retry);
  EXPECT_EQ(answer.error, R"({"code": 4})");
  EXPECT_EQ(parse(R"({"id":"a","ok":false,"retry_after_ms":1e30})").retry_after, 1h);
}

TEST_F(Answers, FieldsThatAreNotKnownAreSkipped) {
  const WorkerAnswer answer = parse(R"({"took":{"ms":[1,2]},"id":"a","x":"y","ok":true})");
  EXPECT_EQ(answer.kind, WorkerAnswer::kResult) << answer.fault;
}

TEST_F(Answers, WhatIsNoAnswerIsAFault) {
  const std::vector<std::string> faults = {
      "hello",
      "{",
      "[]",
      "\"x\"",
      "{}",
      R"({"id":"a"})",
      R"({"ok":true})",
      R"({"id":7,"ok":true})",
      R"({"id":"a","ok":"yes"})",
      R"({"id":"a","ok":true} x)",
      R"({"id":"a","ok":true}{"id":"b","ok":true})",
      R"({"id":"a","ok":true,"out":{"b":nope}})",
      R"({"id":"a","ok":true,"out":})",
      R"({"id":"a","ok":false,"retry":"no"})",
      R"({"id":"a","ok":false,"retry_after_ms":-1})",
      R"({"id":"a","ok":false,"retry_after_ms":"soon"})",
      R"({"v":2,"type":"ready"})",
      R"({"v":1,"type":"hello"})",
      "{\"id\":\"\xff\",\"ok\":true}",
  };
  for (const std::string& line : faults) {
    const WorkerAnswer answer = parse(line);
    EXPECT_EQ(answer.kind, WorkerAnswer::kFault) << line;
    EXPECT_FALSE(answer.fault.empty()) << line;
  }
  EXPECT_EQ(parse(R"({"v":2,"type":"ready"})").fault, "speaks version 2, not 1");
}

}  // namespace
}  // namespace keyway::run
