#include "run/command_file.h"

#include <cerrno>
#include <cstdio>

#include <fcntl.h>
#include <simdjson.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_descriptor.h"
#include "base/json_text.h"
#include "base/system_error.h"

namespace keyway::run {

Result<void> write_command_file(const std::string& path, const CommandFile& command) {
  std::string text = "{\"argv\":[";
  for (const std::string& word : command.argv) {
    if (text.back() != '[') text += ',';
    append_json_string(text, word);
  }
  text += "],\"cwd\":";
  append_json_string(text, command.cwd);
  text += "}\n";
  // If the machine stops now, the run can go on without it.
  const std::string beside = path + ".new";
  const FileDescriptor file(open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file.is_open()) return system_error("cannot write " + beside, errno);
  const ssize_t written = write(file.get(), text.data(), text.size());
  if (written != static_cast<ssize_t>(text.size())) {
    const int why = written < 0 ? errno : ENOSPC;
    unlink(beside.c_str());
    return system_error("cannot write " + beside, why);
  }
  if (std::rename(beside.c_str(), path.c_str()) != 0) {
    return system_error("cannot write " + path, errno);
  }
  return {};
}

Result<std::optional<CommandFile>> read_command_file(const std::string& path) {
  if (access(path.c_str(), F_OK) != 0 && errno == ENOENT) return std::optional<CommandFile>();
  simdjson::dom::parser parser;
  simdjson::dom::element json;
  simdjson::dom::array words;
  std::string_view cwd;
  CommandFile command;
  const simdjson::error_code failed = parser.load(path).get(json);
  if (failed == simdjson::IO_ERROR) return system_error("cannot read " + path, errno);
  bool is_good = failed == 0 && json["argv"].get(words) == 0 && json["cwd"].get(cwd) == 0;
  if (is_good) {
    command.cwd = cwd;
    for (const simdjson::dom::element word : words) {
      std::string_view text;
      is_good = is_good && word.get(text) == 0;
      command.argv.emplace_back(text);
    }
  }
  if (!is_good) {
    return Error{ErrorCode::kConflict, path +
                                           " does not say how a run was started\n  try: name "
                                           "the handler: -- COMMAND"};
  }
  return std::optional(std::move(command));
}

}  // namespace keyway::run
