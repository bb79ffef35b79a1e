// Memory for tasks and lanes: small blocks that one thread takes and another gives back.
//
// Guarantees:
//   (1) A thread takes and gives back from its own magazines; magazines travel between threads in
//       bulk. A plain malloc costs over 100 ns when the block is freed on another core.
//   (2) Blocks whose size is a multiple of 64 are aligned to 64 bytes, others to 16.
//   (3) trim_blocks() returns what is not in use to the system, but for what other threads' magazines
//       hold: at most 128 blocks of each size per thread.
// Not guaranteed: anything for blocks above kMaxBlockBytes, which come from operator new.
//
// Thread safety: every function from any thread.
#pragma once

#include <cstddef>

namespace keyway::detail {

inline constexpr std::size_t kMaxBlockBytes = 512;

void* allocate_block(std::size_t size_bytes);
void deallocate_block(void* block, std::size_t size_bytes) noexcept;

// Gives the calling thread's magazines and the shared surplus back. Cheap when there is none.
void trim_blocks() noexcept;

}  // namespace keyway::detail
