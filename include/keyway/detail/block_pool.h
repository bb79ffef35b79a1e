// Memory for tasks and lanes: small blocks that one thread takes and another gives back.
//
// Guarantees:
//   (1) A thread takes and gives back from its own magazines; magazines travel between threads in
//       bulk. A plain malloc costs over 100 ns when the block is freed on another core.
//   (2) Blocks whose size is a multiple of 64 are aligned to 64 bytes, others to 16.
//   (3) What is given back when nobody has taken any blocks of that size for kBlocksKept goes back to
//       the system. Until then it is kept: memory from the system costs microseconds a page.
//   (4) trim_blocks() returns what is not in use to the system, but for what other threads' magazines
//       hold: at most 128 blocks of each size per thread.
// Not guaranteed: anything for blocks above kMaxBlockBytes, which come from operator new.
//
// Thread safety: every function from any thread.
#pragma once

#include <chrono>
#include <cstddef>

namespace keyway::detail {

inline constexpr std::size_t kMaxBlockBytes = 512;
inline constexpr std::chrono::milliseconds kBlocksKept{500};

void* allocate_block(std::size_t size_bytes);
void deallocate_block(void* block, std::size_t size_bytes) noexcept;

// Gives the calling thread's magazines to the others.
void release_thread_blocks() noexcept;
// The same, and gives the shared surplus back to the system. Cheap when there is none.
void trim_blocks() noexcept;

}  // namespace keyway::detail
