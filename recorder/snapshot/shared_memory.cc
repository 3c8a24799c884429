#include "recorder/snapshot/shared_memory.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "recorder/process/memory_map.h"
#include "recorder/process/populated_pages.h"
#include "recorder/process/process_memory.h"
#include "tracefmt/records.h"

namespace hindsight {
namespace {

// Read in one call.
constexpr uint64_t kChunkBytes = 1 << 20;
// With so many a second thread is worth while.
constexpr size_t kChunksForTwo = 4;

// Reading a device may do something.
bool IsDevice(const MapRegion& region) {
  return absl::StartsWith(region.name, "anon_inode:") || absl::StartsWith(region.name, "[") ||
         (absl::StartsWith(region.name, "/dev/") && !absl::StartsWith(region.name, "/dev/shm/") &&
          !absl::StartsWith(region.name, "/dev/zero"));
}

// Private memory without a file that is not the program's: [vvar], [vdso], [uprobes].
bool IsOfKernel(const MapRegion& region) {
  return absl::StartsWith(region.name, "[v") || region.name == "[uprobes]";
}

}  // namespace

void SharedMemory::PlanRange(uint64_t start, uint64_t end, std::vector<Chunk>* chunks) {
  end = std::min(end, start + room_ / kPageBytes * kPageBytes);
  if (start >= end) return;
  room_ -= end - start;
  std::vector<uint8_t>& block = blocks_.emplace_back(end - start);
  for (uint64_t at = start; at < end; at += kChunkBytes) {
    chunks->push_back({at, absl::MakeSpan(block).subspan(at - start, kChunkBytes)});
  }
}

SharedMemory SharedMemory::Plan(pid_t process, uint64_t most_bytes) {
  SharedMemory shared;
  shared.room_ = most_bytes;
  PopulatedPages populated(absl::StrCat("/proc/", process, "/pagemap"));
  const MemoryMap map = MemoryMap::OfProcess(absl::StrCat("/proc/", process, "/maps"));
  for (const MapRegion& region : map.regions()) {
    if (!region.shared || region.protection == 0 || IsDevice(region)) continue;
    const auto ranges = populated.Find(region.start, region.end);
    if (!ranges.has_value()) continue;
    for (const PopulatedRange& range : *ranges) {
      shared.PlanRange(range.start, range.end, &shared.planned_);
    }
  }
  return shared;
}

void SharedMemory::Read(pid_t process) { ReadChunks(process, planned_); }

bool SharedMemory::ReadChunks(pid_t process, const std::vector<Chunk>& chunks) {
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

bool SharedMemory::ReadByPages(pid_t process, const Chunk& chunk) {
  bool all = true;
  for (size_t offset = 0; offset < chunk.bytes.size(); offset += kPageBytes) {
    const auto page = chunk.bytes.subspan(offset, kPageBytes);
    const bool read = ProcessVmMemory(process).Read(chunk.address + offset, page);
    if (read) pieces_[chunk.address + offset] = {chunk.address + offset + kPageBytes, page.data()};
    all = all && read;
  }
  return all;
}

void SharedMemory::ReadWithheld(pid_t process, pid_t copy) {
  const MemoryMap all = MemoryMap::OfProcess(absl::StrCat("/proc/", process, "/maps"));
  const MemoryMap copied = MemoryMap::OfProcess(absl::StrCat("/proc/", copy, "/maps"));
  PopulatedPages own(absl::StrCat("/proc/", process, "/pagemap"));
  PopulatedPages given(absl::StrCat("/proc/", copy, "/pagemap"));
  for (const MapRegion& region : all.regions()) {
    if (region.name == "[vsyscall]") continue;
    const bool readable = !region.shared && region.inode == 0 && !IsOfKernel(region);
    const bool mapped = copied.Find(region.start) != nullptr;
    // The kernel gives a child all pages of such memory, or, if it is to be wiped, none.
    const bool wiped = mapped && readable && !given.HasContents(region.start, region.end) &&
                       own.HasContents(region.start, region.end);
    if (mapped && !wiped) continue;
    withheld_.push_back({region, mapped, readable && ReadRegion(process, region)});
  }
}

bool SharedMemory::ReadRegion(pid_t process, const MapRegion& region) {
  PopulatedPages populated(absl::StrCat("/proc/", process, "/pagemap"));
  const auto ranges = populated.Find(region.start, region.end);
  if (!ranges.has_value()) return false;
  std::vector<Chunk> chunks;
  for (const PopulatedRange& range : *ranges) {
    if (range.end - range.start > room_) return false;
    PlanRange(range.start, range.end, &chunks);
  }
  return ReadChunks(process, chunks);
}

const uint8_t* SharedMemory::Find(uint64_t address) const {
  const auto after = pieces_.upper_bound(address);
  if (after == pieces_.begin()) return nullptr;
  const auto& [start, piece] = *std::prev(after);
  return address < piece.end ? piece.bytes + (address - start) : nullptr;
}

std::vector<uint64_t> SharedMemory::PagesIn(uint64_t start, uint64_t end) const {
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
