#include "base/hash_key.h"

#include <random>

namespace keyway::detail {

const std::uint64_t kHashSeed = [] {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}();

}  // namespace keyway::detail
