// A console that keeps what is written, in a world that the test describes.
#pragma once

#include <map>
#include <string>

#include "cli/console.h"

namespace keyway {

struct FakeConsole {
  std::string out;
  std::string err;
  std::map<std::string, std::string> environment = {{"TERM", "xterm"}};
  std::optional<int> columns;
  cli::Console console;

  explicit FakeConsole(std::filesystem::path folder = "/nowhere") {
    console.out = [this](std::string_view text) { out += text; };
    console.err = [this](std::string_view text) { err += text; };
    console.columns = [this] { return columns; };
    console.environment = [this](const std::string& name) -> std::optional<std::string> {
      const auto found = environment.find(name);
      if (found == environment.end()) return std::nullopt;
      return found->second;
    };
    console.folder = std::move(folder);
  }
  FakeConsole(const FakeConsole&) = delete;
  FakeConsole& operator=(const FakeConsole&) = delete;
};

}  // namespace keyway
