#include <keyway/json_keys.h>

int main() {
  const auto classify = keyway::json_keys({.key = ".user"});
  if (!classify) return 1;
  keyway::Record record{.value = R"({"user":"ada","order":1})"};
  const keyway::Result<bool> taken = (*classify)(record);
  return taken.value_or(false) && record.key == "ada" ? 0 : 1;
}
