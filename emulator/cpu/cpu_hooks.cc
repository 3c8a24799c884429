// What happens inside uc_emu_start: page faults, blocks, watched accesses.

#include <algorithm>
#include <cstring>
#include <utility>

#include "emulator/cpu/cpu_impl.h"
#include "emulator/float/float_helpers.h"

namespace hindsight {
namespace {

uint64_t PageOf(uint64_t address) { return address & ~(kPageBytes - 1); }

}  // namespace

// Makes the page of `address` accessible, or not.
bool Cpu::Impl::Obtain(uint64_t address, bool write) {
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
  if (view_.is_code(page)) OnCodeWrite(page);
  return true;
}

bool Cpu::Impl::OnHostFault(void* pointer, bool write) {
  uint64_t address = 0;
  if (mode_ == Mode::kIdle || !view_.GuestAddress(pointer, &address)) return false;
  if (Obtain(address, write)) {
    view_.Regrant(PageOf(address));
    return true;
  }
  fault_ = true;
  fault_address_ = address;
  Poison(PageOf(address));
  return true;
}

// A chunk is made only where there is a page: it costs host mappings, and the engine gets slower
// with each that is a region of its own.
bool Cpu::Impl::OnNewChunk(bool write, uint64_t address) {
  HostFloatScope scope;  // an engine is running
  if (Obtain(address, write)) return true;
  fault_ = true;
  fault_address_ = address;
  return false;
}

bool Cpu::Impl::ObtainRange(uint64_t address, uint64_t size, bool write) {
  const uint64_t last = address + size - 1;
  fault_address_ = address;
  if (last < address || last >= View::kAddressLimit || !Obtain(address, write)) return false;
  fault_address_ = PageOf(last);
  if (PageOf(last) != PageOf(address) && !Obtain(last, write)) return false;
  fault_address_ = 0;
  return true;
}

bool Cpu::Impl::Read(uint64_t address, absl::Span<uint8_t> out) {
  if (const uint8_t* const at = Unwatched(address, out.size(), /*write=*/false)) {
    std::memcpy(out.data(), at, out.size());
    return true;
  }
  if (!ObtainRange(address, out.size(), /*write=*/false)) return false;
  OnMemory(/*write=*/false, address, static_cast<uint32_t>(out.size()), 0);
  return view_.ReadHeld(address, out);
}

bool Cpu::Impl::MayWrite(uint64_t address, absl::Span<uint8_t> old) {
  return ObtainRange(address, old.size(), /*write=*/true) && view_.ReadHeld(address, old);
}

uint8_t* Cpu::Impl::Pointer(uint64_t address, size_t size, bool write) {
  if (uint8_t* const at = Unwatched(address, size, write)) return at;
  if (IsWatched(address, size) || !ObtainRange(address, size, write)) return nullptr;
  const uint64_t first = PageOf(address), last = PageOf(address + size - 1);
  uint8_t* const host = view_.HostPage(first);
  // Two pages lie together unless they are of different chunks.
  if (last != first && view_.HostPage(last) != host + kPageBytes) return nullptr;
  return host + address % kPageBytes;
}

bool Cpu::Impl::Write(uint64_t address, absl::Span<const uint8_t> bytes) {
  if (uint8_t* const at = Unwatched(address, bytes.size(), /*write=*/true)) {
    std::memcpy(at, bytes.data(), bytes.size());
    return true;
  }
  if (!ObtainRange(address, bytes.size(), /*write=*/true)) return false;
  for (size_t i = 0; i < bytes.size(); i += sizeof(uint64_t)) {
    uint64_t value = 0;
    const size_t piece = std::min(sizeof(value), bytes.size() - i);
    std::memcpy(&value, bytes.data() + i, piece);
    OnMemory(/*write=*/true, address + i, static_cast<uint32_t>(piece), value);
  }
  for (size_t i = 0; i < bytes.size(); ++i) {
    view_.HostPage(PageOf(address + i))[(address + i) % kPageBytes] = bytes[i];
  }
  return true;
}

// Generated code cannot be left at an access. Lets it run on, on garbage, to the end of its block.
void Cpu::Impl::Poison(uint64_t page) {
  const bool new_chunk = view_.Find(page) == nullptr;
  const uint8_t* host = view_.HostPage(page);
  poisoned_.push_back({page, new_chunk, std::vector<uint8_t>(host, host + kPageBytes)});
  view_.Poison(page);
  ForceExit();
}

void Cpu::Impl::SetBreakpoints(const absl::flat_hash_set<uint64_t>& addresses) {
  absl::flat_hash_set<uint64_t> changed;
  for (uint64_t address : addresses) {
    if (!breakpoints_.contains(address)) changed.insert(address);
  }
  for (uint64_t address : breakpoints_) {
    if (!addresses.contains(address)) changed.insert(address);
  }
  blocks_.DropContaining(changed);
  breakpoints_ = addresses;
  ++breakpoints_version_;
}

void Cpu::Impl::SetWatchpoints(const std::vector<Watchpoint>& watchpoints) {
  watchpoints_ = watchpoints;
  watch_low_ = ~uint64_t{0};
  watch_high_ = 0;
  for (const Watchpoint& watchpoint : watchpoints_) {
    watch_low_ = std::min(watch_low_, watchpoint.address);
    watch_high_ = std::max(watch_high_, watchpoint.address + watchpoint.length);
  }
}

void Cpu::Impl::OnMemory(bool write, uint64_t address, uint32_t size, uint64_t value) {
  if (!IsWatched(address, size)) [[likely]]
    return;
  for (size_t i = 0; i < watchpoints_.size(); ++i) {
    const Watchpoint& watchpoint = watchpoints_[i];
    if (address >= watchpoint.address + watchpoint.length || address + size <= watchpoint.address) {
      continue;
    }
    if (write ? watchpoint.on_write && Changes(address, size, value, watchpoint)
              : watchpoint.on_read) {
      NoteHit(i, std::max(address, watchpoint.address));
    }
  }
}

// Whether a write about to happen changes a byte of the watched location.
bool Cpu::Impl::Changes(uint64_t address, uint32_t size, uint64_t value,
                        const Watchpoint& watchpoint) {
  // Wider stores come in pieces of at most eight bytes.
  if (size > sizeof(value)) return true;
  for (uint32_t i = 0; i < size; ++i) {
    uint64_t at = address + i;
    if (at < watchpoint.address || at >= watchpoint.address + watchpoint.length) continue;
    if (view_.rights(PageOf(at)) == PageRights::kNone) {
      HostFloatScope scope;                                              // an engine is running
      if (!pager_->OnMissing(PageOf(at), Access::kWrite)) return false;  // the write will fault
    }
    uint8_t old = 0;
    view_.ReadHeld(at, absl::MakeSpan(&old, 1));
    if (old != static_cast<uint8_t>(value >> (8 * i))) return true;
  }
  return false;
}

void Cpu::Impl::NoteHit(size_t index, uint64_t address) {
  if (mode_ != Mode::kBlocks) {
    if (!watch_hit_) {
      hit_watchpoint_ = index;
      hit_address_ = address;
    }
    watch_hit_ = true;
    return;
  }
  if (log_ == nullptr) {
    fault_ = true;
    ForceExit();
    return;
  }
  ++log_->watch_hits;
  log_->last_watch_block_count = block_start_count_;
  log_->last_watch_block_end = count_;
}

}  // namespace hindsight
