// A worker for tests and measurements: as quick as a worker can be, and bad in the ways that it is told.
//
//   worker_probe [ok|die|hang|say-bye]
//     ok       every record is done
//     die      exits with 7 at a record with "die" in it
//     hang     does not answer a record with "hang" in it, and takes no notice of SIGTERM
//     say-bye  says on stderr that its input has ended
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include <unistd.h>

namespace {

std::string_view text_after(std::string_view line, std::string_view name) {
  const std::size_t at = line.find(name);
  if (at == std::string_view::npos) return {};
  line.remove_prefix(at + name.size());
  return line.substr(0, line.find('"'));
}

bool write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = write(1, text.data(), text.size());
    if (put < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(put));
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "ok";
  if (mode == "hang") std::signal(SIGTERM, SIG_IGN);
  std::string unread;
  std::string answers;
  std::string buffer(1 << 16, '\0');
  for (;;) {
    const ssize_t got = read(0, buffer.data(), buffer.size());
    if (got <= 0) break;
    unread.append(buffer, 0, static_cast<std::size_t>(got));
    std::size_t begin = 0;
    for (std::size_t end = 0; (end = unread.find('\n', begin)) != std::string::npos;
         begin = end + 1) {
      const std::string_view line = std::string_view(unread).substr(begin, end - begin);
      if (line.find("\"type\":\"hello\"") != std::string_view::npos) {
        answers += "{\"v\":1,\"type\":\"ready\"}\n";
        continue;
      }
      if (mode == "die" && line.find("die") != std::string_view::npos) return 7;
      if (mode == "hang" && line.find("hang") != std::string_view::npos) pause();
      answers += "{\"id\":\"";
      answers += text_after(line, "\"id\":\"");
      answers += "\",\"ok\":true}\n";
    }
    unread.erase(0, begin);
    if (!write_all(answers)) return 1;
    answers.clear();
  }
  if (mode == "say-bye") std::fputs("bye\n", stderr);
  return 0;
}
