#include "base/hash_key.h"

#include <random>

namespace keyway::detail {

std::uint64_t hash_seed() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

}  // namespace keyway::detail
