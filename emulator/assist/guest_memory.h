// Guest memory as an instruction that is executed outside Unicorn accesses it.

#ifndef HINDSIGHT_EMULATOR_ASSIST_GUEST_MEMORY_H_
#define HINDSIGHT_EMULATOR_ASSIST_GUEST_MEMORY_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace hindsight {

class GuestMemory {
 public:
  virtual ~GuestMemory() = default;
  // False: the access faults.
  virtual bool Read(uint64_t address, absl::Span<uint8_t> out) = 0;
  virtual bool Write(uint64_t address, absl::Span<const uint8_t> bytes) = 0;
  // False if Write would fault; else copies the current bytes to `old`, which does not count as a
  // read by the program.
  virtual bool MayWrite(uint64_t address, absl::Span<uint8_t> old) = 0;
  // Where the bytes at `address` lie in this process, for direct access. nullptr: use Read or
  // Write, since the access faults, is watched, or is not contiguous in this process.
  virtual uint8_t* Pointer(uint64_t address, size_t size, bool write) { return nullptr; }
};

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_ASSIST_GUEST_MEMORY_H_
