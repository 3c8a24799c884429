#include "recorder/snapshot/memory_pieces.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <thread>
#include <utility>

#include "recorder/process/process_memory.h"
#include "tracefmt/records.h"

namespace hindsight {
namespace {

constexpr uint64_t kChunkBytes = 1 << 20;
// With so many a second thread is worth while.
constexpr size_t kChunksForTwo = 4;

}  // namespace

bool MemoryPieces::Reserve(uint64_t start, uint64_t end, std::vector<Chunk>* chunks) {
  while (start < end) {
    if (used_ == BlockPool::kBlockBytes) {
      BlockPool::Block block = pool_->Take();
      if (block == nullptr) return false;
      blocks_.push_back(std::move(block));
      used_ = 0;
    }
    const uint64_t size = std::min({end - start, kChunkBytes, BlockPool::kBlockBytes - used_});
    chunks->push_back({start, {blocks_.back().get() + used_, size}});
    used_ += size;
    start += size;
  }
  return true;
}

bool MemoryPieces::Read(pid_t process, const std::vector<Chunk>& chunks) {
  std::vector<char> whole(chunks.size());  // each written by one thread
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i; (i = next++) < chunks.size();) {
      whole[i] = ProcessVmMemory(process).Read(chunks[i].address, chunks[i].bytes);
    }
  };
  std::thread other;
  if (chunks.size() >= kChunksForTwo) other = std::thread(work);
  work();
  if (other.joinable()) other.join();
  bool all = true;
  for (size_t i = 0; i < chunks.size(); ++i) {
    const Chunk& chunk = chunks[i];
    if (whole[i]) {
      pieces_[chunk.address] = {chunk.address + chunk.bytes.size(), chunk.bytes.data()};
    } else {
      all = ReadByPages(process, chunk) && all;
    }
  }
  return all;
}

bool MemoryPieces::ReadByPages(pid_t process, const Chunk& chunk) {
  bool all = true;
  for (size_t offset = 0; offset < chunk.bytes.size(); offset += kPageBytes) {
    const auto page = chunk.bytes.subspan(offset, kPageBytes);
    const bool read = ProcessVmMemory(process).Read(chunk.address + offset, page);
    if (read) pieces_[chunk.address + offset] = {chunk.address + offset + kPageBytes, page.data()};
    all = all && read;
  }
  return all;
}

const uint8_t* MemoryPieces::Find(uint64_t address) const {
  const auto after = pieces_.upper_bound(address);
  if (after == pieces_.begin()) return nullptr;
  const auto& [start, piece] = *std::prev(after);
  return address < piece.end ? piece.bytes + (address - start) : nullptr;
}

std::vector<uint64_t> MemoryPieces::PagesIn(uint64_t start, uint64_t end) const {
  std::vector<uint64_t> pages;
  auto it = pieces_.upper_bound(start);
  if (it != pieces_.begin()) --it;
  for (; it != pieces_.end() && it->first < end; ++it) {
    const uint64_t last = std::min(end, it->second.end);
    for (uint64_t page = std::max(start, it->first); page < last; page += kPageBytes) {
      pages.push_back(page);
    }
  }
  return pages;
}

}  // namespace hindsight
