#include "base/hash_key.h"

#include <random>
#include <string>

#include "keyway/error.h"

namespace keyway {

std::uint64_t detail::hash_seed() {
  static const std::uint64_t seed = [] {
    std::random_device device;
    return (std::uint64_t{device()} << 32) | device();
  }();
  return seed;
}

void refuse_key(std::string_view key, std::string_view what) {
  const std::string name(what);
  throw Exception({ErrorCode::kInvalidArgument,
                   key.empty()
                       ? "the " + name + " is empty"
                       : "the " + name + " has " + std::to_string(key.size()) + " bytes; at most " +
                             std::to_string(kMaxKeyBytes) + " are allowed"});
}

}  // namespace keyway
