#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include <keyway/file_source.h>
#include <keyway/pipeline.h>

int main(int, char** argv) {
  const std::filesystem::path path = std::filesystem::path(argv[0]).concat(".jsonl");
  std::ofstream(path) << "one\ntwo\nthree\n";
  keyway::FileSource source({.paths = {path}});
  std::atomic<int> lines = 0;
  keyway::Pipeline pipeline(source, {}, [&lines](const keyway::Record&) { ++lines; });
  const keyway::Result<keyway::PipelineEnd> end = pipeline.run_until();
  if (!end) std::puts(end.error().message.c_str());
  return end && lines == 3 ? 0 : 1;
}
