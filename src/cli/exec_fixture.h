// For the tests of `keyway exec` that start the program itself, with exec_probe as its command.
#pragma once

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <sys/stat.h>

#include <gtest/gtest.h>

#include "exec/key_file.h"
#include "support/started_program.h"
#include "support/temporary_folder.h"

namespace keyway::cli {

class ExecProgram : public ::testing::Test {
 protected:
  using Words = std::vector<std::string>;

  // Files and folders made by this test; a test that fails says what was printed.
  ExecProgram() {
    std::filesystem::create_directory(slots);
    chmod(slots.c_str(), 0700);
  }
  ~ExecProgram() override {
    if (HasFailure()) ADD_FAILURE() << "log:\n" << place.read("log") << "output:\n" << output();
  }

  // keyway exec --key k FLAGS -- COMMAND
  StartedProgram start(const Words& flags, const Words& command) {
    Words words = {KEYWAY_PROGRAM, "exec", "--key", "k", "--state", slots};
    words.insert(words.end(), flags.begin(), flags.end());
    words.emplace_back("--");
    words.insert(words.end(), command.begin(), command.end());
    return {std::move(words), place.file("output")};
  }
  int run(const Words& flags, const Words& command) { return start(flags, command).wait(); }

  Words probe(int places, const std::string& id, const Words& how = {}) {
    Words words = {KEYWAY_EXEC_PROBE, place.path(), std::to_string(places), id};
    words.insert(words.end(), how.begin(), how.end());
    return words;
  }
  // One that waits until open_gate(id).
  Words gated_probe(int places, const std::string& id) {
    mkfifo(place.file("gate." + id).c_str(), 0600);
    return probe(places, id, {"gate"});
  }
  void open_gate(const std::string& id) { const std::ofstream gate(place.file("gate." + id)); }

  // Until it holds; false after a long time.
  template <class Condition>
  bool wait_until(const Condition& holds) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!holds()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }
  bool wait_for_log(const std::string& line) {
    return wait_until(
        [&] { return ("\n" + place.read("log")).find("\n" + line + "\n") != std::string::npos; });
  }
  // Until so many stand in line.
  bool wait_for_line(int length) {
    return wait_until([&] { return key_file().count_tickets() == length; });
  }
  exec::KeyFile key_file() {
    const auto folder = exec::open_slot_folder({slots, true});
    return std::move(exec::KeyFile::open(folder.value(), "k.slots").value());
  }

  std::string output() const { return place.read("output"); }
  bool exceeded() const { return std::filesystem::exists(place.file("exceeded")); }
  bool has_key_file() const { return std::filesystem::exists(slots + "/k.slots"); }

  const TemporaryFolder place;
  const std::string slots = place.file("slots");
};

}  // namespace keyway::cli
