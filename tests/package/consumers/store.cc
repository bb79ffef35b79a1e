#include <cstdint>
#include <cstdio>
#include <filesystem>

#include <keyway/sqlite_database.h>

int main(int, char** argv) {
  const std::filesystem::path path = std::filesystem::path(argv[0]).concat(".db");
  std::filesystem::remove(path);
  const auto database = keyway::SqliteDatabase::open(path.string());
  if (!database) {
    std::puts(database.error().message.c_str());
    return 1;
  }
  const keyway::Result<bool> stored =
      (*database)->transact([](keyway::SqliteTransaction& transaction) {
        transaction.execute("create table bills (amount integer)");
        return transaction.execute("insert into bills values (?)", {std::int64_t{42}}) == 1;
      });
  return stored.value_or(false) ? 0 : 1;
}
