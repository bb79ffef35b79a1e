// Three levels, as in a slab allocator with magazines:
//
//   thread    two magazines of up to 64 blocks per size class; no lock
//   depot     a bounded number of full magazines, per size class; one lock per magazine
//   slab      a page of blocks of one class; its memory goes back to the system when all are back
//
// What goes through magazines comes out in the order in which it was freed, which is no order at all:
// good while it all fits into a cache, but a million tasks would then be strewn over as many pages.
// So what the depot does not hold goes back to its slab, and comes out again page by page.
//
// In a steady state blocks circulate between threads and depot; slabs are touched only while the
// number of blocks in use grows, by trim_blocks(), which an idle worker calls, and by whoever gives
// blocks back when nobody has asked for any for a while.
#include "keyway/detail/block_pool.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <new>
#include <unordered_map>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <time.h>

#include "base/prefetch.h"
#include "base/spin_lock.h"
#include "keyway/detail/check.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define KEYWAY_PLAIN_BLOCKS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define KEYWAY_PLAIN_BLOCKS 1
#endif
#endif

namespace keyway::detail {

#if defined(KEYWAY_PLAIN_BLOCKS)

// A recycled block would hide a use after free from the sanitizers.
void* allocate_block(std::size_t size_bytes) {
  return ::operator new(size_bytes, std::align_val_t{64});
}
void deallocate_block(void* block, std::size_t) noexcept {
  ::operator delete(block, std::align_val_t{64});
}
void release_thread_blocks() noexcept {}
void trim_blocks() noexcept {}

#else

namespace {

constexpr std::size_t kGranule = 16;
constexpr std::size_t kClasses = kMaxBlockBytes / kGranule + 1;
// A page: a block that some idle thread holds on to keeps no more memory than that.
constexpr std::size_t kSlabBytes = 4096;
constexpr std::size_t kChunkBytes = 2 * 1024 * 1024;  // a huge page
constexpr std::size_t kSlabsBeforeHugePages = 1024;
constexpr std::size_t kSlabHeaderBytes = 64;
constexpr std::size_t kFullMagazines = 64;
constexpr int kSlabsTrimmedAtOnce = 16;

// To the next few milliseconds; it costs a fourth of a precise reading.
std::int64_t coarse_milliseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

// Fewer of large blocks: what a thread holds may lie on as many pages as it has blocks.
constexpr std::uint32_t magazine_blocks(std::size_t block_bytes) {
  return static_cast<std::uint32_t>(std::clamp<std::size_t>(6144 / block_bytes, 8, 64));
}

std::size_t class_of(std::size_t size_bytes) {
  return size_bytes == 0 ? 1 : (size_bytes + kGranule - 1) / kGranule;
}

struct Block {
  Block* next;           // within its magazine or slab
  Block* next_magazine;  // only in the first block of a magazine in the depot
};

struct Magazine {
  Block* head = nullptr;
  std::uint32_t count = 0;

  void push(Block* block) {
    block->next = head;
    head = block;
    ++count;
  }
  Block* pop() {
    Block* block = head;
    head = block->next;
    --count;
    return block;
  }
};

struct Slab {
  Slab* next;  // in one of its depot's lists
  Slab* previous;
  Block* free;
  char* fresh;  // blocks from here to the end were not handed out yet
  std::uint32_t in_use;
  bool partial;  // some of its blocks are in use, and some are not

  static Slab* of(void* block) {
    return reinterpret_cast<Slab*>(reinterpret_cast<std::uintptr_t>(block) & ~(kSlabBytes - 1));
  }
  char* end() { return reinterpret_cast<char*>(this) + kSlabBytes; }
  // All blocks are there, and come out in the order of their addresses.
  void renew() {
    free = nullptr;
    fresh = reinterpret_cast<char*>(this) + kSlabHeaderBytes;
  }
};
static_assert(sizeof(Slab) <= kSlabHeaderBytes);

// Address space for slabs, reserved in chunks and kept for ever; memory only while a slab is in use.
class SlabSource {
 public:
  Slab* take() {
    SpinGuard guard(lock_);
    if (free_.empty()) reserve_chunk();
    void* memory = free_.back();
    free_.pop_back();
    Chunk& chunk = chunks_[chunk_of(memory)];
    // Who needs much gets it with one page fault instead of 512; who needs little stays small.
    if (chunk.slabs_in_use == 0 && in_use_ >= kSlabsBeforeHugePages) set_huge(memory, true);
    ++chunk.slabs_in_use;
    ++in_use_;
    return new (memory) Slab{};
  }

  void give(Slab* slab) {
    SpinGuard guard(lock_);
    --in_use_;
    // A page of a huge page can only go if the kernel does not make it whole again, as it likes to.
    set_huge(slab, false);
    // With its last slab a whole chunk goes, also what of a huge page was never used.
    const bool last = --chunks_[chunk_of(slab)].slabs_in_use == 0;
    madvise(last ? reinterpret_cast<void*>(chunk_of(slab)) : slab, last ? kChunkBytes : kSlabBytes,
            MADV_DONTNEED);
    free_.push_back(slab);
  }

 private:
  struct Chunk {
    std::uint32_t slabs_in_use = 0;
    bool huge = false;
  };

  static std::uintptr_t chunk_of(const void* slab) {
    return reinterpret_cast<std::uintptr_t>(slab) & ~(kChunkBytes - 1);
  }

  void set_huge(const void* slab, bool huge) KEYWAY_REQUIRES(lock_) {
    Chunk& chunk = chunks_[chunk_of(slab)];
    if (chunk.huge == huge) return;
    chunk.huge = huge;
    madvise(reinterpret_cast<void*>(chunk_of(slab)), kChunkBytes,
            huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  }

  void reserve_chunk() KEYWAY_REQUIRES(lock_) {
    // Twice the size, so that an aligned chunk lies inside; the rest goes back at once.
    void* mapped = mmap(nullptr, 2 * kChunkBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    const auto start = reinterpret_cast<std::uintptr_t>(mapped);
    const std::uintptr_t chunk = (start + kChunkBytes - 1) & ~(kChunkBytes - 1);
    const std::uintptr_t end = chunk + kChunkBytes;
    if (chunk > start) munmap(mapped, chunk - start);
    munmap(reinterpret_cast<void*>(end), start + 2 * kChunkBytes - end);
    // Lowest address last, to be taken first.
    for (std::uintptr_t slab = end; slab > chunk; slab -= kSlabBytes) {
      free_.push_back(reinterpret_cast<void*>(slab - kSlabBytes));
    }
  }

  SpinLock<LockRank::kSlabs> lock_;
  std::vector<void*> free_ KEYWAY_GUARDED_BY(lock_);
  std::unordered_map<std::uintptr_t, Chunk> chunks_ KEYWAY_GUARDED_BY(lock_);
  std::size_t in_use_ KEYWAY_GUARDED_BY(lock_) = 0;
};

// Never destroyed: threads may give blocks back until the very end of the program.
SlabSource& slabs() {
  static SlabSource* instance = new SlabSource;
  return *instance;
}

class alignas(64) Depot {
 public:
  void set_block_bytes(std::size_t size_bytes) {
    block_bytes_ = size_bytes;
    magazine_blocks_ = magazine_blocks(size_bytes);
  }
  std::uint32_t blocks_per_magazine() const { return magazine_blocks_; }

  Magazine take() {
    const std::int64_t now = coarse_milliseconds();
    SpinGuard guard(lock_);
    last_taken_ = now;
    if (full_ != nullptr) return pop_full();
    Magazine magazine;
    do {
      magazine.push(take_from_slab());
    } while (magazine.count < magazine_blocks_);
    return magazine;
  }

  void give(Magazine magazine) {
    if (magazine.count == 0) return;
    const std::int64_t now = coarse_milliseconds();
    SpinGuard guard(lock_);
    if (now - last_taken_ >= kBlocksKept.count()) {
      return_all(magazine);
      trim_some();
    } else if (magazine.count == magazine_blocks_ && full_count_ < kFullMagazines) {
      magazine.head->next_magazine = full_;
      full_ = magazine.head;
      ++full_count_;
    } else {
      return_all(magazine);
    }
  }

  void trim() {
    // A little per critical section: others may be waiting for this lock.
    while (true) {
      SpinGuard guard(lock_);
      if (!trim_some()) return;
    }
  }

 private:
  Magazine pop_full() KEYWAY_REQUIRES(lock_) {
    Magazine magazine{.head = full_, .count = magazine_blocks_};
    full_ = full_->next_magazine;
    --full_count_;
    return magazine;
  }

  Block* take_from_slab() KEYWAY_REQUIRES(lock_) {
    if (partial_ == nullptr) {
      Slab* slab = empty_;
      if (slab != nullptr) {
        empty_ = slab->next;
      } else {
        slab = slabs().take();
      }
      slab->renew();
      link(slab);
    }
    Slab* slab = partial_;
    Block* block = slab->free;
    if (block != nullptr) {
      slab->free = block->next;
    } else {
      block = reinterpret_cast<Block*>(slab->fresh);
      slab->fresh += block_bytes_;
    }
    ++slab->in_use;
    if (slab->free == nullptr && slab->fresh + block_bytes_ > slab->end()) unlink(slab);
    return block;
  }

  // False if there is nothing to be had.
  bool trim_some() KEYWAY_REQUIRES(lock_) {
    if (full_ != nullptr) {
      return_all(pop_full());
      return true;
    }
    for (int i = 0; i < kSlabsTrimmedAtOnce; ++i) {
      Slab* slab = empty_;
      if (slab == nullptr) return false;
      empty_ = slab->next;
      slabs().give(slab);
    }
    return true;
  }

  void return_all(Magazine magazine) KEYWAY_REQUIRES(lock_) {
    while (magazine.count > 0) return_to_slab(magazine.pop());
  }

  void return_to_slab(Block* block) KEYWAY_REQUIRES(lock_) {
    Slab* slab = Slab::of(block);
    block->next = slab->free;
    slab->free = block;
    if (!slab->partial) link(slab);
    if (--slab->in_use > 0) return;
    unlink(slab);
    slab->next = empty_;
    empty_ = slab;
  }

  void link(Slab* slab) KEYWAY_REQUIRES(lock_) {
    slab->partial = true;
    slab->previous = nullptr;
    slab->next = partial_;
    if (partial_ != nullptr) partial_->previous = slab;
    partial_ = slab;
  }

  void unlink(Slab* slab) KEYWAY_REQUIRES(lock_) {
    slab->partial = false;
    if (slab->previous != nullptr) {
      slab->previous->next = slab->next;
    } else {
      partial_ = slab->next;
    }
    if (slab->next != nullptr) slab->next->previous = slab->previous;
  }

  // Constant after construction.
  std::size_t block_bytes_ = 0;
  std::uint32_t magazine_blocks_ = 0;

  SpinLock<LockRank::kBlockDepot> lock_;
  std::int64_t last_taken_ KEYWAY_GUARDED_BY(lock_) = 0;
  Block* full_ KEYWAY_GUARDED_BY(lock_) = nullptr;
  std::size_t full_count_ KEYWAY_GUARDED_BY(lock_) = 0;
  Slab* partial_ KEYWAY_GUARDED_BY(lock_) = nullptr;
  Slab* empty_ KEYWAY_GUARDED_BY(lock_) = nullptr;
};

class Depots {
 public:
  Depots() {
    for (std::size_t i = 1; i < kClasses; ++i) depots_[i].set_block_bytes(i * kGranule);
  }
  Depot& operator[](std::size_t size_class) { return depots_[size_class]; }

 private:
  std::array<Depot, kClasses> depots_;
};

// Never destroyed, as above.
Depots& depots() {
  static Depots* instance = new Depots;
  return *instance;
}

class ThreadCache {
 public:
  ThreadCache() {
    for (std::size_t i = 1; i < kClasses; ++i) {
      shelves_[i].capacity = depots()[i].blocks_per_magazine();
    }
  }

  void* allocate(std::size_t size_class) {
    Shelf& shelf = shelves_[size_class];
    if (shelf.loaded.count == 0) [[unlikely]] {
      if (shelf.spare.count > 0) {
        std::swap(shelf.loaded, shelf.spare);
      } else {
        shelf.loaded = depots()[size_class].take();
      }
    }
    Block* block = shelf.loaded.pop();
    // The next one was perhaps given back on another core: fetch its lines, to write, by the time it
    // is asked for.
    const Block* next = shelf.loaded.head;
    prefetch_to_write(next);
    if (size_class > 64 / kGranule) prefetch_to_write(next, 64);
    if (size_class > 128 / kGranule) prefetch_to_write(next, 128);
    return block;
  }

  void deallocate(void* memory, std::size_t size_class) {
    Shelf& shelf = shelves_[size_class];
    if (shelf.loaded.count == shelf.capacity) [[unlikely]] {
      if (shelf.spare.count > 0) depots()[size_class].give(shelf.spare);
      shelf.spare = shelf.loaded;
      shelf.loaded = Magazine{};
    }
    shelf.loaded.push(static_cast<Block*>(memory));
  }

  void flush() {
    for (std::size_t i = 1; i < kClasses; ++i) {
      depots()[i].give(std::exchange(shelves_[i].loaded, {}));
      depots()[i].give(std::exchange(shelves_[i].spare, {}));
    }
  }

 private:
  struct Shelf {
    Magazine loaded;
    Magazine spare;
    std::uint32_t capacity = 0;  // of each
  };
  std::array<Shelf, kClasses> shelves_;
};

constinit thread_local ThreadCache* this_thread_cache = nullptr;
constinit thread_local bool this_thread_ended = false;

ThreadCache* make_cache() {
  if (this_thread_ended) return nullptr;
  struct Owner {
    ThreadCache cache;
    ~Owner() {
      cache.flush();
      this_thread_cache = nullptr;
      this_thread_ended = true;
    }
  };
  thread_local Owner owner;
  this_thread_cache = &owner.cache;
  return this_thread_cache;
}

// For the destructors of thread-local objects that run after the cache's own.
void* allocate_uncached(std::size_t size_class) {
  Magazine magazine = depots()[size_class].take();
  Block* block = magazine.pop();
  depots()[size_class].give(magazine);
  return block;
}

}  // namespace

void* allocate_block(std::size_t size_bytes) {
  if (size_bytes > kMaxBlockBytes) return ::operator new(size_bytes, std::align_val_t{64});
  ThreadCache* cache = this_thread_cache;
  if (cache == nullptr) [[unlikely]]
    cache = make_cache();
  const std::size_t size_class = class_of(size_bytes);
  return cache != nullptr ? cache->allocate(size_class) : allocate_uncached(size_class);
}

void deallocate_block(void* block, std::size_t size_bytes) noexcept {
  if (size_bytes > kMaxBlockBytes) {
    ::operator delete(block, std::align_val_t{64});
    return;
  }
  ThreadCache* cache = this_thread_cache;
  if (cache == nullptr) [[unlikely]]
    cache = make_cache();
#if defined(KEYWAY_EXPLORE)
  std::memset(block, 0xdd, size_bytes);  // so that a use after free shows
#endif
  const std::size_t size_class = class_of(size_bytes);
  if (cache != nullptr) {
    cache->deallocate(block, size_class);
    return;
  }
  Magazine single;
  single.push(static_cast<Block*>(block));
  depots()[size_class].give(single);
}

void release_thread_blocks() noexcept {
  if (this_thread_cache != nullptr) this_thread_cache->flush();
}

void trim_blocks() noexcept {
  release_thread_blocks();
  for (std::size_t i = 1; i < kClasses; ++i) depots()[i].trim();
}

#endif

}  // namespace keyway::detail
