#include <cstring>
#include <string>

#include <keyway/error.h>
#include <keyway/version.h>

static_assert(KEYWAY_VERSION ==
              KEYWAY_VERSION_MAJOR * 10000 + KEYWAY_VERSION_MINOR * 100 + KEYWAY_VERSION_PATCH);

int main() {
  // FOUND_VERSION is the version that find_package() or pkg-config reported.
  if (std::strcmp(KEYWAY_VERSION_STRING, FOUND_VERSION) != 0) return 1;
  const keyway::Result<int> failed = keyway::Error{keyway::ErrorCode::kIo, "the disk is full"};
  return failed.value_or(1) == 1 && keyway::to_string(failed.error().code) == std::string("io") ? 0
                                                                                                : 1;
}
