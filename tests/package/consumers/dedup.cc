#include <cstdio>
#include <filesystem>

#include <keyway/sqlite_handled_ids.h>

int main(int, char** argv) {
  const std::filesystem::path path = std::filesystem::path(argv[0]).concat(".db");
  std::filesystem::remove(path);
  const auto ids = keyway::sqlite_handled_ids(path.string());
  if (!ids) {
    std::puts(ids.error().message.c_str());
    return 1;
  }
  if ((*ids)->contains("order-1").value_or(true) || !(*ids)->add("order-1")) return 1;
  return (*ids)->contains("order-1").value_or(false) ? 0 : 1;
}
