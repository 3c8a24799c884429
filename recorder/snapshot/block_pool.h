// Memory of this process that is used again and again: getting new memory from the kernel takes as
// long as copying as much.
//
// Not copyable. Any host thread. Outlives its blocks.

#ifndef HINDSIGHT_RECORDER_SNAPSHOT_BLOCK_POOL_H_
#define HINDSIGHT_RECORDER_SNAPSHOT_BLOCK_POOL_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace hindsight {

class BlockPool {
 public:
  static constexpr uint64_t kBlockBytes = 2 << 20;

  // Blocks that come back are kept for later, up to `most_bytes` of them.
  explicit BlockPool(uint64_t most_bytes) : most_(most_bytes / kBlockBytes) {}
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  struct Return {
    BlockPool* pool = nullptr;
    void operator()(uint8_t* block) const { pool->GiveBack(block); }
  };
  using Block = std::unique_ptr<uint8_t, Return>;

  // What it holds is anything. Null: there is no memory.
  Block Take();

 private:
  void GiveBack(uint8_t* block);

  const uint64_t most_;
  std::mutex mutex_;
  std::vector<uint8_t*> free_;  // guarded by mutex_
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SNAPSHOT_BLOCK_POOL_H_
