#include "recorder/translate/agent/float_state.h"

#include "recorder/translate/agent/calls.h"
#include "recorder/translate/agent/recording.h"
#include "recorder/translate/agent/system.h"

namespace hindsight::agent {
namespace {

// MXCSR_MASK in what FXSAVE stores.
constexpr uint64_t kMxcsrMaskAt = 28;
constexpr uint32_t kMxcsrMask = 0xffff;

}  // namespace

bool ExecuteFloatState(Thread* thread, uint64_t size) {
  const auto* code = PointerTo<const uint8_t>(thread->pc);
  const bool wide = (code[0] & 0xf8) == 0x48;
  const uint8_t* opcode = (code[0] & 0xf0) == 0x40 ? code + 1 : code;
  if (opcode[0] != 0x0f || opcode[1] != 0xae || (opcode[2] & 0xc0) == 0xc0) return false;
  const int which = opcode[2] >> 3 & 7;
  const uint64_t address = thread->block->exit_address;
  constexpr uint64_t kBytes = 512, kWrittenBytes = 416;
  if (which > 1 || address % 16 != 0 || !TakeRead(thread, address, kBytes)) return false;
  auto* seen = PointerTo<uint8_t>(address + DistanceOf(thread->number));
  if (which == 0) {
    RecordCorrection(thread);
    if (wide) {
      asm volatile("fxsave64 (%0)" ::"r"(seen) : "memory");
    } else {
      asm volatile("fxsave (%0)" ::"r"(seen) : "memory");
    }
    // Processors differ in it; a replay has the one that all have.
    *reinterpret_cast<uint32_t*>(seen + kMxcsrMaskAt) = kMxcsrMask;
    if (!CopyGuest(PointerTo<void>(address), seen, kWrittenBytes)) return false;
  } else if (wide) {
    asm volatile("fxrstor64 (%0)" ::"r"(seen) : "memory");
  } else {
    asm volatile("fxrstor (%0)" ::"r"(seen) : "memory");
  }
  thread->pc += size;
  ++thread->count;
  return true;
}

}  // namespace hindsight::agent
