// The trace memory model: which emulated instructions are orderable events.
//
// Stateless; any thread.

#ifndef HINDSIGHT_ISA_MEMORY_MODEL_H_
#define HINDSIGHT_ISA_MEMORY_MODEL_H_

#include <cstdint>

#include "emulator/cpu/instruction.h"

namespace hindsight {

// Each contains the one before.
enum class MemoryModel : uint8_t {
  kKernel,  // none
  kFence,   // LOCK-prefixed, xchg with memory, mfence, sfence, lfence
  kAcqRel,  // kFence, and all that write memory: on x86 every store is a release
  kLoad,    // kAcqRel, and all that read memory
};

// Decided on the instruction alone: a REP instruction is orderable also when it runs no iteration.
// System calls are not: they are orderable events of their own kind.
bool IsOrderable(const Instruction& instruction, MemoryModel model);

}  // namespace hindsight

#endif  // HINDSIGHT_ISA_MEMORY_MODEL_H_
