// A handler for tests of `keyway run`: appends "RUN SEQ" to a log for each record that it has handled.
//
//   run_probe process LOG RUN     one record, as a process of its own
//   run_probe worker LOG RUN      records by the worker protocol
//
// Each takes up to a millisecond, by its number.
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <unistd.h>

namespace {

// A string or number of a job's line.
std::string value_of(std::string_view line, const std::string& name) {
  const std::size_t at = line.find("\"" + name + "\":");
  if (at == std::string_view::npos) std::abort();
  line.remove_prefix(at + name.size() + 3);
  if (line.front() == '"') return std::string(line.substr(1, line.find('"', 1) - 1));
  return std::string(line.substr(0, line.find_first_of(",}")));
}

void handle(int log, const std::string& run, const std::string& seq) {
  usleep(static_cast<useconds_t>(std::stoul(seq) * 7919 % 1000));
  const std::string line = run + " " + seq + "\n";
  if (write(log, line.data(), line.size()) != static_cast<ssize_t>(line.size())) std::abort();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const int log = open(argv[2], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (log < 0) return 1;
  const std::string run = argv[3];
  if (std::string_view(argv[1]) == "process") {
    handle(log, run, std::getenv("KEYWAY_SEQ"));
    return 0;
  }
  for (std::string line; std::getline(std::cin, line);) {
    if (value_of(line, "type") == "hello") {
      std::cout << R"({"v":1,"type":"ready"})" << std::endl;
    } else {
      handle(log, run, value_of(line, "seq"));
      std::cout << R"({"id":")" << value_of(line, "id") << R"(","ok":true})" << std::endl;
    }
  }
}
