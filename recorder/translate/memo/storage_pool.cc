#include "recorder/translate/memo/storage_pool.h"

#include <algorithm>
#include <utility>

namespace hindsight {
namespace {

constexpr size_t kChunkWords = 32 * 1024;

}  // namespace

uint64_t* StoragePool::Take(size_t words) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (left_ < words) {
    left_ = std::max(words, kChunkWords);
    next_ = chunks_.emplace_back(std::make_unique_for_overwrite<uint64_t[]>(left_)).get();
  }
  left_ -= words;
  return std::exchange(next_, next_ + words);
}

}  // namespace hindsight
