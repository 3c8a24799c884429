// Guest memory as an assisted instruction sees it.

#ifndef HINDSIGHT_EMULATOR_ASSIST_ASSIST_MEMORY_H_
#define HINDSIGHT_EMULATOR_ASSIST_ASSIST_MEMORY_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace hindsight {

class AssistMemory {
 public:
  virtual ~AssistMemory() = default;
  // False: the access faults.
  virtual bool Read(uint64_t address, absl::Span<uint8_t> out) = 0;
  virtual bool Write(uint64_t address, absl::Span<const uint8_t> bytes) = 0;
  // False if Write would fault; else `old` gets what is there, which is no access of the program's.
  virtual bool MayWrite(uint64_t address, absl::Span<uint8_t> old) = 0;
  // Where the bytes at `address` lie in this process, for an access at once instead of by Read or
  // Write. nullptr: it must be made by these, be it that it faults, be it that somebody looks.
  virtual uint8_t* Pointer(uint64_t address, size_t size, bool write) { return nullptr; }
};

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_ASSIST_ASSIST_MEMORY_H_
