// The command of the tests of `keyway exec`: it notices when too many of its kind run at once.
//
// usage: exec_probe FOLDER PLACES ID [HOW]...
//
// Each takes one of PLACES locks of its own, which the kernel drops with it; where all are taken, it
// writes FOLDER/exceeded and ends with 99. It writes "begin ID", waits, writes "end ID" to FOLDER/log.
//   HOW: ms=N       waits N milliseconds
//        gate       waits until somebody has opened and closed the FIFO FOLDER/gate.ID
//        together   waits until PLACES of them have begun; ends with 96 if that does not happen
//        closes     first closes every descriptor that it was started with
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

namespace {

void write_line(const std::string& path, const std::string& line) {
  const int file = open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  const std::string text = line + "\n";
  if (write(file, text.data(), text.size()) < 0) _exit(98);
  close(file);
}

bool take_place(const std::string& folder, int places) {
  for (int i = 0; i < places; ++i) {
    const std::string path = folder + "/place." + std::to_string(i);
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (flock(file, LOCK_EX | LOCK_NB) == 0) return true;
    close(file);
  }
  return false;
}

int begun(const std::string& log) {
  std::ifstream lines(log);
  int count = 0;
  for (std::string line; std::getline(lines, line);) count += line.starts_with("begin ") ? 1 : 0;
  return count;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 97;
  const std::string folder = argv[1];
  const int places = std::atoi(argv[2]);
  const std::string id = argv[3];
  const std::string log = folder + "/log";
  for (int i = 4; i < argc; ++i) {
    if (std::string(argv[i]) == "closes") close_range(3, ~0U, 0);
  }
  if (!take_place(folder, places)) {
    write_line(folder + "/exceeded", id);
    return 99;
  }
  write_line(log, "begin " + id);
  for (int i = 4; i < argc; ++i) {
    const std::string how = argv[i];
    if (how.starts_with("ms=")) {
      std::this_thread::sleep_for(std::chrono::milliseconds(std::stoi(how.substr(3))));
    } else if (how == "gate") {
      std::string path = folder;
      path.append("/gate.").append(id);
      const int gate = open(path.c_str(), O_RDONLY | O_CLOEXEC);
      char byte = 0;
      if (read(gate, &byte, 1) < 0) return 98;
    } else if (how == "together") {
      for (int ms = 0; begun(log) < places; ++ms) {
        if (ms > 60'000) return 96;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
  }
  write_line(log, "end " + id);
}
