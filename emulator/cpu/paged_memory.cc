#include "emulator/cpu/paged_memory.h"

#include <algorithm>
#include <cstring>

#include "emulator/unicorn/float_helpers.h"
#include "tracefmt/records.h"

namespace hindsight {
bool PagedMemory::Obtain(uint64_t address, bool write) {
  const uint64_t page = PageOf(address);
  if (view_.rights(page) == PageRights::kNone &&
      (!pager_->OnMissing(page, write ? Access::kWrite : Access::kRead) ||
       view_.rights(page) == PageRights::kNone)) {
    return false;
  }
  if (!write) return true;
  if (view_.rights(page) == PageRights::kRead) {
    if (!pager_->OnFirstWrite(page)) return false;
    view_.SetRights(page, PageRights::kReadWrite);
  }
  if (view_.is_code(page)) observer_->OnCodeWrite(page);
  return true;
}

bool PagedMemory::ObtainForExecution(uint64_t page) {
  HostFloatScope scope;  // an engine may be running
  if (view_.rights(page) == PageRights::kNone &&
      (!pager_->OnMissing(page, Access::kExecute) || view_.rights(page) == PageRights::kNone)) {
    return false;
  }
  return pager_->MayExecute(page);
}

std::optional<uint8_t> PagedMemory::ByteBeforeWrite(uint64_t address) {
  if (view_.rights(PageOf(address)) == PageRights::kNone) {
    HostFloatScope scope;  // an engine may be running
    if (!pager_->OnMissing(PageOf(address), Access::kWrite)) return std::nullopt;
  }
  uint8_t byte = 0;
  view_.ReadHeld(address, absl::MakeSpan(&byte, 1));
  return byte;
}

bool PagedMemory::ObtainRange(uint64_t address, uint64_t size, bool write) {
  const uint64_t last = address + size - 1;
  fault_address_ = address;
  if (last < address || last >= View::kAddressLimit || !Obtain(address, write)) return false;
  fault_address_ = PageOf(last);
  if (PageOf(last) != PageOf(address) && !Obtain(last, write)) return false;
  fault_address_ = 0;
  return true;
}

bool PagedMemory::Read(uint64_t address, absl::Span<uint8_t> out) {
  if (const uint8_t* const at = Unwatched(address, out.size(), /*write=*/false)) {
    std::memcpy(out.data(), at, out.size());
    return true;
  }
  if (!ObtainRange(address, out.size(), /*write=*/false)) return false;
  Report(/*write=*/false, address, static_cast<uint32_t>(out.size()), 0);
  return view_.ReadHeld(address, out);
}

bool PagedMemory::MayWrite(uint64_t address, absl::Span<uint8_t> old) {
  return ObtainRange(address, old.size(), /*write=*/true) && view_.ReadHeld(address, old);
}

uint8_t* PagedMemory::Pointer(uint64_t address, size_t size, bool write) {
  if (uint8_t* const at = Unwatched(address, size, write)) return at;
  if (watchpoints_.MayTouch(address, size) || !ObtainRange(address, size, write)) return nullptr;
  const uint64_t first = PageOf(address), last = PageOf(address + size - 1);
  uint8_t* const host = view_.HostPage(first);
  // Two pages lie together unless they are of different chunks.
  if (last != first && view_.HostPage(last) != host + kPageBytes) return nullptr;
  return host + address % kPageBytes;
}

bool PagedMemory::Write(uint64_t address, absl::Span<const uint8_t> bytes) {
  if (uint8_t* const at = Unwatched(address, bytes.size(), /*write=*/true)) {
    std::memcpy(at, bytes.data(), bytes.size());
    return true;
  }
  if (!ObtainRange(address, bytes.size(), /*write=*/true)) return false;
  for (size_t i = 0; i < bytes.size(); i += sizeof(uint64_t)) {
    uint64_t value = 0;
    const size_t piece = std::min(sizeof(value), bytes.size() - i);
    std::memcpy(&value, bytes.data() + i, piece);
    Report(/*write=*/true, address + i, static_cast<uint32_t>(piece), value);
  }
  for (size_t i = 0; i < bytes.size(); ++i) {
    view_.HostPage(PageOf(address + i))[(address + i) % kPageBytes] = bytes[i];
  }
  return true;
}

void PagedMemory::Poison(uint64_t page) {
  const bool new_chunk = view_.Find(page) == nullptr;
  const uint8_t* host = view_.HostPage(page);
  poisoned_.push_back({page, new_chunk, std::vector<uint8_t>(host, host + kPageBytes)});
  view_.Poison(page);
}

void PagedMemory::RestorePoisoned(absl::FunctionRef<void(uint64_t page, bool gone)> restored) {
  // Backward, for a page may have been poisoned twice.
  for (auto poisoned = poisoned_.rbegin(); poisoned != poisoned_.rend(); ++poisoned) {
    std::memcpy(view_.HostPage(poisoned->page), poisoned->contents.data(), kPageBytes);
    restored(poisoned->page, poisoned->new_chunk);
    view_.Regrant(poisoned->page);
    if (poisoned->new_chunk) view_.RemoveChunk(poisoned->page & ~(View::kChunkBytes - 1));
  }
  poisoned_.clear();
}

}  // namespace hindsight
