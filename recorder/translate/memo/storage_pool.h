// Memory for many small pieces that end together: a heap would grow by few pages at a time, and
// keep note of each.
//
// Not copyable. Thread-safe.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_MEMO_STORAGE_POOL_H_
#define HINDSIGHT_RECORDER_TRANSLATE_MEMO_STORAGE_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace hindsight {

class StoragePool {
 public:
  StoragePool() = default;
  StoragePool(const StoragePool&) = delete;
  StoragePool& operator=(const StoragePool&) = delete;

  // So many words, which live as long as the pool, with anything in them.
  uint64_t* Take(size_t words);

 private:
  std::mutex mutex_;  // for all that follows
  std::vector<std::unique_ptr<uint64_t[]>> chunks_;
  uint64_t* next_ = nullptr;
  size_t left_ = 0;  // words there
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_MEMO_STORAGE_POOL_H_
