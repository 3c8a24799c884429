#include "emulator/cpu/watchpoints.h"

#include <algorithm>

namespace hindsight {

void Watchpoints::Set(const std::vector<Watchpoint>& watchpoints) {
  watchpoints_ = watchpoints;
  low_ = ~uint64_t{0};
  high_ = 0;
  for (const Watchpoint& watchpoint : watchpoints_) {
    low_ = std::min(low_, watchpoint.address);
    high_ = std::max(high_, watchpoint.address + watchpoint.length);
  }
}

void Watchpoints::FindRead(uint64_t address, uint32_t size, OnHit on_hit) const {
  for (size_t i = 0; i < watchpoints_.size(); ++i) {
    const Watchpoint& watchpoint = watchpoints_[i];
    if (!watchpoint.on_read || !Touches(watchpoint, address, size)) continue;
    on_hit({.index = i, .address = std::max(address, watchpoint.address)});
  }
}

void Watchpoints::FindWrite(uint64_t address, uint32_t size, uint64_t value, OldByte old_byte,
                            OnHit on_hit) const {
  for (size_t i = 0; i < watchpoints_.size(); ++i) {
    const Watchpoint& watchpoint = watchpoints_[i];
    const bool on_store = watchpoint.on_store;
    if (!(watchpoint.on_write || on_store) || !Touches(watchpoint, address, size)) continue;
    const uint64_t first = std::max(address, watchpoint.address);
    const uint64_t end = std::min(address + size, watchpoint.address + watchpoint.length);
    const bool changes = watchpoint.on_write && Changes(watchpoint, address, size, value, old_byte);
    if (!changes && !(on_store && old_byte(first).has_value())) continue;
    on_hit({.index = i,
            .address = first,
            .size = on_store ? static_cast<uint32_t>(end - first) : 0,
            .silent = watchpoint.on_write && !changes});
  }
}

bool Watchpoints::Changes(const Watchpoint& watchpoint, uint64_t address, uint32_t size,
                          uint64_t value, OldByte old_byte) {
  // Unicorn reports wider stores in pieces of at most eight bytes.
  if (size > sizeof(value)) return true;
  for (uint32_t i = 0; i < size; ++i) {
    const uint64_t at = address + i;
    if (at < watchpoint.address || at >= watchpoint.address + watchpoint.length) continue;
    const std::optional<uint8_t> old = old_byte(at);
    if (!old.has_value()) return false;
    if (*old != static_cast<uint8_t>(value >> (8 * i))) return true;
  }
  return false;
}

}  // namespace hindsight
