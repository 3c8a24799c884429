// The watched locations of a Cpu, and which of them an access hits.
//
// Movable and copyable. One thread at a time.

#ifndef HINDSIGHT_EMULATOR_CPU_WATCHPOINTS_H_
#define HINDSIGHT_EMULATOR_CPU_WATCHPOINTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"

namespace hindsight {

struct Watchpoint {
  uint64_t address = 0;
  uint64_t length = 0;
  bool on_write = true;  // write that changes a byte
  bool on_read = false;
  // Every write, also one that changes nothing. The hits say what was written.
  bool on_store = false;
  bool operator==(const Watchpoint&) const = default;
};

class Watchpoints {
 public:
  struct Hit {
    size_t index = 0;  // into the vector set
    uint64_t address = 0;
    uint32_t size = 0;    // of on_store: how much of the watchpoint was written; else 0
    bool silent = false;  // of on_write with on_store: no byte changes
    bool operator==(const Hit&) const = default;
  };
  using OnHit = absl::FunctionRef<void(const Hit&)>;
  // The byte at an address before the write; nullopt: the write will fault.
  using OldByte = absl::FunctionRef<std::optional<uint8_t>(uint64_t address)>;

  void Set(const std::vector<Watchpoint>& watchpoints);
  bool empty() const { return watchpoints_.empty(); }

  // A quick test: false if the access certainly hits none.
  bool MayTouch(uint64_t address, uint64_t size) const {
    return address < high_ && address + size > low_;
  }
  // Reports each watchpoint that a read hits.
  void FindRead(uint64_t address, uint32_t size, OnHit on_hit) const;
  // Reports each watchpoint that a write of the low `size` bytes of `value` is about to hit. A
  // write of more than eight bytes hits all that it touches.
  void FindWrite(uint64_t address, uint32_t size, uint64_t value, OldByte old_byte,
                 OnHit on_hit) const;

 private:
  static bool Touches(const Watchpoint& watchpoint, uint64_t address, uint32_t size) {
    return address < watchpoint.address + watchpoint.length && address + size > watchpoint.address;
  }
  static bool Changes(const Watchpoint& watchpoint, uint64_t address, uint32_t size, uint64_t value,
                      OldByte old_byte);

  std::vector<Watchpoint> watchpoints_;
  // All lie in [low_, high_).
  uint64_t low_ = ~uint64_t{0};
  uint64_t high_ = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_CPU_WATCHPOINTS_H_
