// The trace memory model: which instructions are orderable events.
//
// Stateless; any thread.

#ifndef HINDSIGHT_ISA_MEMORY_MODEL_H_
#define HINDSIGHT_ISA_MEMORY_MODEL_H_

#include <Zydis/Zydis.h>

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace hindsight {

// Each contains the one before.
enum class MemoryModel : uint8_t {
  kKernel,  // none
  kFence,   // LOCK-prefixed, xchg with memory, mfence, sfence, lfence
  kAcqRel,  // kFence, and all that write memory: on x86 every store is a release
  kLoad,    // kAcqRel, and all that read memory
};

// "kernel", "fence", "acqrel", "load": as in traces and options.
const char* MemoryModelName(MemoryModel model);
std::optional<MemoryModel> ParseMemoryModel(absl::string_view name);

// How an instruction uses memory.
struct MemoryUse {
  uint16_t mnemonic = 0;  // ZydisMnemonic
  bool reads = false;
  bool writes = false;
  bool locked = false;  // LOCK prefix or xchg with memory
};
// Hidden operands count: the stack of push and call, the ends of a string instruction. `operands`:
// all of the instruction's.
MemoryUse MemoryUseOf(const ZydisDecodedInstruction& decoded, const ZydisDecodedOperand* operands);

// LOCK-prefixed, xchg with memory, mfence, sfence, lfence.
bool IsFence(const MemoryUse& use);

// A property of the instruction alone: a REP instruction is orderable even if it runs no iteration.
bool IsOrderable(const MemoryUse& use, MemoryModel model);

}  // namespace hindsight

#endif  // HINDSIGHT_ISA_MEMORY_MODEL_H_
