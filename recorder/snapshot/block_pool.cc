#include "recorder/snapshot/block_pool.h"

#include <sys/mman.h>

namespace hindsight {
namespace {

// Written to once, so that the kernel has nothing left to do. Null: there is no memory.
uint8_t* NewBlock() {
  constexpr uint64_t kSize = BlockPool::kBlockBytes;
  void* const base = mmap(nullptr, 2 * kSize, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return nullptr;
  // On a boundary that allows for one large page.
  auto* const first = static_cast<uint8_t*>(base);
  const uint64_t before = -reinterpret_cast<uint64_t>(first) % kSize;
  if (before != 0) munmap(first, before);
  munmap(first + before + kSize, kSize - before);
  // Both only save time.
  madvise(first + before, kSize, MADV_HUGEPAGE);
  madvise(first + before, kSize, MADV_POPULATE_WRITE);
  return first + before;
}

}  // namespace

BlockPool::~BlockPool() {
  for (uint8_t* const block : free_) munmap(block, kBlockBytes);
}

BlockPool::Block BlockPool::Take() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!free_.empty()) {
      Block block(free_.back(), {this});
      free_.pop_back();
      return block;
    }
  }
  return Block(NewBlock(), {this});
}

void BlockPool::GiveBack(uint8_t* block) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (free_.size() < most_) return free_.push_back(block);
  }
  munmap(block, kBlockBytes);
}

}  // namespace hindsight
