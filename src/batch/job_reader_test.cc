#include "batch/job_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/file_descriptor.h"
#include "support/temporary_folder.h"

namespace keyway::batch {
namespace {

const Limits kLimits;

class JobReaderTest : public ::testing::Test {
 protected:
  FileDescriptor open_with(const std::string& text) {
    const std::string path = folder_.write("jobs.jsonl", text);
    return FileDescriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  }
  Result<JobFileFacts> check(const std::string& text, const Limits& limits = kLimits) {
    const FileDescriptor file = open_with(text);
    return check_jobs("jobs.jsonl", file.get(), limits);
  }
  std::string error(const std::string& text, const Limits& limits = kLimits) {
    const auto checked = check(text, limits);
    return checked.ok() ? "no error" : checked.error().message;
  }

  TemporaryFolder folder_;
};

// "id line seq" of each job, and how it ended.
std::string read_all(int descriptor, JobReader::Ids ids = JobReader::Ids::kChecked) {
  JobReader reader("f", descriptor, kLimits, ids);
  std::string text;
  while (true) {
    switch (reader.next()) {
      case JobReader::Next::kJob:
        text += reader.job().id + " " + std::to_string(reader.line()) + " " +
                std::to_string(reader.seq()) + "\n";
        break;
      case JobReader::Next::kNeedsInput:
        if (!reader.fill().ok()) return text + "cannot read";
        break;
      case JobReader::Next::kEnd:
        return text + "end";
      case JobReader::Next::kFailed:
        return text + reader.error().message;
    }
  }
}

TEST_F(JobReaderTest, SkipsBlankLinesAndNeedsNoLastNewline) {
  const FileDescriptor file = open_with(
      "\xef\xbb\xbf{\"sh\":\"a\"}\n\n  \t\r\n{\"sh\":\"b\",\"id\":\"x\"}\r\n{\"sh\":\"c\"}");
  EXPECT_EQ(read_all(file.get()), "1 1 1\nx 4 2\n5 5 3\nend");
}

TEST_F(JobReaderTest, AnEmptyFileHasNoJobs) {
  const auto facts = check("");
  ASSERT_TRUE(facts.ok());
  EXPECT_EQ(facts->jobs, 0u);
}

TEST_F(JobReaderTest, ReadsThroughAPipeAsItComes) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const FileDescriptor out(ends[0]);
  FileDescriptor in(ends[1]);
  JobReader reader("-", out.get(), kLimits);
  EXPECT_EQ(reader.next(), JobReader::Next::kNeedsInput);
  ASSERT_EQ(write(in.get(), "{\"sh\":\"a\"}\n{\"sh\"", 16), 16);
  ASSERT_TRUE(reader.fill().ok());
  EXPECT_EQ(reader.next(), JobReader::Next::kJob);
  EXPECT_EQ(reader.text(), "{\"sh\":\"a\"}");
  EXPECT_EQ(reader.next(), JobReader::Next::kNeedsInput);
  ASSERT_EQ(write(in.get(), ":\"b\"}", 5), 5);
  in.close();
  ASSERT_TRUE(reader.fill().ok());
  EXPECT_EQ(reader.next(), JobReader::Next::kNeedsInput) << "there may be more of this line";
  ASSERT_TRUE(reader.fill().ok());
  EXPECT_EQ(reader.next(), JobReader::Next::kJob);
  EXPECT_EQ(reader.next(), JobReader::Next::kEnd);
}

TEST_F(JobReaderTest, LinesOfManySizesSurviveTheBuffersBorders) {
  std::string text;
  std::string expected;
  for (int i = 1; i <= 300; ++i) {
    text += "{\"sh\":\"" + std::string(static_cast<std::size_t>(i) * 37, 'x') + "\"}\n";
    expected += std::to_string(i) + " " + std::to_string(i) + " " + std::to_string(i) + "\n";
  }
  const FileDescriptor file = open_with(text);
  EXPECT_EQ(read_all(file.get()), expected + "end");
}

TEST_F(JobReaderTest, ALongLineIsReadAndATooLongOneIsAnError) {
  const std::string long_text(3 << 20, 'x');
  EXPECT_EQ(error("{\"sh\":\"" + long_text + "\"}\n"), "no error");
  const std::string too_long(jobs::LineReader::kLongestLine + 1, 'x');
  EXPECT_EQ(error("{\"sh\":\"a\"}\n" + too_long + "\n").substr(0, 45),
            "jobs.jsonl:2: the line is longer than 16 MiB\n");
  EXPECT_EQ(error(too_long).substr(0, 45), "jobs.jsonl:1: the line is longer than 16 MiB\n");
}

TEST_F(JobReaderTest, AMistakeNamesFileAndLine) {
  EXPECT_EQ(error("{\"sh\":\"a\"}\n\n{\"cmnd\":[\"x\"]}\n"),
            "jobs.jsonl:3: unknown field \"cmnd\"\n  try: \"cmd\"");
}

TEST_F(JobReaderTest, AnIdThatWasThereBeforeNamesBothLines) {
  EXPECT_TRUE(error("{\"sh\":\"a\",\"id\":\"x\"}\n{\"sh\":\"b\"}\n{\"sh\":\"c\",\"id\":\"x\"}\n")
                  .starts_with("jobs.jsonl:3: the id \"x\" was there before, in line 1\n  try: "));
  // A line without an id is called by its number.
  EXPECT_TRUE(error("{\"sh\":\"a\",\"id\":\"2\"}\n{\"sh\":\"b\"}\n")
                  .starts_with("jobs.jsonl:2: the id \"2\" was there before, in line 1\n"));
}

TEST_F(JobReaderTest, WhoHasCheckedTheIdsNeedNotAgain) {
  const FileDescriptor file =
      open_with("{\"sh\":\"a\",\"id\":\"x\"}\n{\"sh\":\"b\",\"id\":\"x\"}\n");
  EXPECT_EQ(read_all(file.get(), JobReader::Ids::kTrusted), "x 1 1\nx 2 2\nend");
}

TEST_F(JobReaderTest, ASuspicionCanBeCleared) {
  const FileDescriptor file =
      open_with("{\"sh\":\"a\",\"id\":\"x\"}\n{\"sh\":\"b\",\"id\":\"x\"}\n{\"sh\":\"c\"}\n");
  JobReader reader("f", file.get(), kLimits);
  ASSERT_TRUE(reader.fill().ok());
  EXPECT_EQ(reader.next(), JobReader::Next::kJob);
  EXPECT_EQ(reader.next(), JobReader::Next::kFailed);
  ASSERT_TRUE(reader.is_duplicate());
  reader.clear_suspicion();
  EXPECT_EQ(reader.seq(), 2u);
  EXPECT_EQ(reader.next(), JobReader::Next::kJob);
  EXPECT_EQ(reader.seq(), 3u);
}

TEST_F(JobReaderTest, AWeightAboveTheLimitCouldNeverRun) {
  Limits limits;
  limits.groups["db"] = {.limit = 3, .max_in_flight = 2, .queue = {}};
  EXPECT_EQ(error("{\"sh\":\"a\",\"group\":\"db\",\"weight\":2}\n", limits), "no error");
  EXPECT_EQ(
      error("{\"sh\":\"a\",\"group\":\"db\",\"weight\":3}\n", limits),
      "jobs.jsonl:1: the weight 3 is more than the limit of group \"db\", which is 2: it could "
      "never run\n  try: a smaller weight, or a higher limit");
}

TEST_F(JobReaderTest, ACheckCountsJobsAndGroupsAndGoesBackToTheBeginning) {
  const FileDescriptor file =
      open_with("{\"sh\":\"a\",\"group\":\"p\"}\n{\"sh\":\"b\",\"group\":\"q\"}\n{\"sh\":\"b\"}\n");
  const auto facts = check_jobs("f", file.get(), kLimits);
  ASSERT_TRUE(facts.ok());
  EXPECT_EQ(facts->jobs, 3u);
  EXPECT_EQ(facts->groups, 3u);
  ASSERT_EQ(facts->fingerprints.size(), 3u);
  EXPECT_EQ(facts->fingerprints[2], fingerprint_of("{\"sh\":\"b\"}  \r"));
  EXPECT_NE(facts->fingerprints[0], facts->fingerprints[1]);
  EXPECT_EQ(read_all(file.get()), "1 1 1\n2 2 2\n3 3 3\nend");
}

TEST_F(JobReaderTest, AFingerprintIsTheSameInEveryVersion) {
  EXPECT_EQ(fingerprint_of("{\"sh\":\"echo a longer line than eight bytes\"}"),
            12073274370158631701u);
}

TEST_F(JobReaderTest, TheLimitOfAGroupIsTheSmallerOfTwo) {
  Limits limits;
  limits.standard = {.limit = 4, .max_in_flight = 3, .queue = {}};
  limits.groups["a"] = {.limit = 2, .max_in_flight = {}, .queue = {}};
  limits.groups["b"] = {.limit = {}, .max_in_flight = 9, .queue = {}};
  EXPECT_EQ(limit_of(limits, "a"), 2);
  EXPECT_EQ(limit_of(limits, "b"), 4);
  EXPECT_EQ(limit_of(limits, "c"), 3);
  EXPECT_EQ(limit_of(kLimits, "c"), 1);
}

}  // namespace
}  // namespace keyway::batch
