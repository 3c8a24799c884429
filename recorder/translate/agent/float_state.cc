#include "recorder/translate/agent/float_state.h"

#include <stdint.h>

#include "recorder/translate/agent/calls.h"
#include "recorder/translate/agent/recording.h"
#include "recorder/translate/agent/system.h"

namespace hindsight::agent {
namespace {

// MXCSR_MASK in what FXSAVE stores.
constexpr uint64_t kMxcsrMaskAt = 28;
constexpr uint32_t kMxcsrMask = 0xffff;

uint64_t Selector(uint64_t which) {
  uint64_t value = 0;
  switch (which) {
    case 0:
      asm("mov %%cs, %0" : "=r"(value));
      break;
    case 1:
      asm("mov %%ss, %0" : "=r"(value));
      break;
    case 2:
      asm("mov %%ds, %0" : "=r"(value));
      break;
    case 3:
      asm("mov %%es, %0" : "=r"(value));
      break;
    case 4:
      asm("mov %%fs, %0" : "=r"(value));
      break;
    default:
      asm("mov %%gs, %0" : "=r"(value));
      break;
  }
  return value;
}

}  // namespace

// The vector registers are the guest's all the time.
void TakeState(const Thread& thread, GuestState* state) {
  memcpy(state->gpr, thread.registers, sizeof(state->gpr));
  state->gpr[kR10] = thread.block->guest_r10;
  state->gpr[kR11] = thread.block->guest_r11;
  state->rip = thread.pc;
  state->rflags = thread.flags;
  state->fs_base = thread.block->fs_base;
  state->gs_base = thread.block->gs_base;
  for (uint64_t i = 0; i < 6; ++i) state->selectors[i] = Selector(i);
  asm volatile("fxsave64 %0" : "=m"(state->fxsave));
}

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
