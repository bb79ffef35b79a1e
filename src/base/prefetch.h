// Asks for a cache line that will soon be written, so that it is here by then.
#pragma once

#include <cstddef>
#include <cstdint>

namespace keyway {

// `offset_bytes` may lead beyond the object: what lies there is not touched.
inline void prefetch_to_write(const void* address, std::size_t offset_bytes = 0) {
  const std::uintptr_t line = reinterpret_cast<std::uintptr_t>(address) + offset_bytes;
  __builtin_prefetch(reinterpret_cast<const void*>(line), 1);
}

}  // namespace keyway
