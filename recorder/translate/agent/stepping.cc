#include "recorder/translate/agent/stepping.h"

#include <asm/prctl.h>
#include <signal.h>
#include <sys/syscall.h>

#include "recorder/translate/agent/boot.h"
#include "recorder/translate/agent/calls.h"
#include "recorder/translate/agent/direct_memory.h"
#include "recorder/translate/agent/entry.h"
#include "recorder/translate/agent/exclusive_memory.h"
#include "recorder/translate/agent/float_state.h"
#include "recorder/translate/agent/orders.h"
#include "recorder/translate/agent/recording.h"
#include "recorder/translate/agent/run.h"
#include "recorder/translate/agent/signals.h"
#include "recorder/translate/base/system.h"

namespace hindsight::agent {
namespace {

constexpr uint64_t kLongestInstruction = 15;
constexpr uint16_t kTrapFlag = 0x100;

// The instruction at pc as far as it matters here.
struct Code {
  uint8_t bytes[kLongestInstruction + 1];
  uint64_t size;          // that are there
  uint64_t prefixes;      // bytes
  bool gs, repeat, half;  // prefixes; half: operands of 16 bits
  uint8_t rex;            // 0: none
  uint8_t opcode[3];      // zeros where there is nothing
};

bool IsLegacyPrefix(uint8_t byte) {
  switch (byte) {
    case 0x26:
    case 0x2e:
    case 0x36:
    case 0x3e:
    case 0x64:
    case 0x65:
    case 0x66:
    case 0x67:
    case 0xf0:
    case 0xf2:
    case 0xf3:
      return true;
    default:
      return false;
  }
}

void ReadCode(uint64_t pc, Code* code) {
  *code = {};
  code->size =
      kLongestInstruction - AgentCopy(code->bytes, PointerTo<const void>(pc), kLongestInstruction);
  uint64_t at = 0;
  for (; at < code->size && IsLegacyPrefix(code->bytes[at]); ++at) {
    code->gs |= code->bytes[at] == 0x65;
    code->repeat |= code->bytes[at] == 0xf3;
    code->half |= code->bytes[at] == 0x66;
  }
  if (at < code->size && (code->bytes[at] & 0xf0) == 0x40) code->rex = code->bytes[at++];
  code->prefixes = at;
  for (uint64_t i = 0; i < 3 && at + i < code->size; ++i) code->opcode[i] = code->bytes[at + i];
}

bool IsSystemCall(const Code& code) { return code.opcode[0] == 0x0f && code.opcode[1] == 0x05; }

// What would go past the agent, or take its GS from it: system calls made in another way, loads of
// GS and of SS (which is not followed by a trap), operands relative to GS.
bool IsOutOfReach(const Code& code) {
  const uint8_t* opcode = code.opcode;
  const bool interrupt = opcode[0] == 0xcd && opcode[1] != 3;
  const bool sysenter = opcode[0] == 0x0f && opcode[1] == 0x34;
  const int segment = opcode[1] >> 3 & 7;
  const bool loads = opcode[0] == 0x8e && (segment == 2 || segment == 5);
  const bool far_loads =
      opcode[0] == 0x0f && (opcode[1] == 0xa9 || opcode[1] == 0xb2 || opcode[1] == 0xb5);
  return interrupt || sysenter || loads || far_loads || code.gs;
}

// Whether popf or iret takes flags from the stack that have the trap flag.
bool SetsTrapFlag(const Thread& thread, const Code& code) {
  uint64_t offset = 0;
  if (code.opcode[0] == 0xcf) {
    offset = (code.rex & 8) != 0 ? 16 : code.half ? 4 : 8;
  } else if (code.opcode[0] != 0x9d) {
    return false;
  }
  uint16_t flags;
  return CopyGuest(&flags, PointerTo<void>(thread.registers[kRsp] + offset), sizeof(flags)) &&
         (flags & kTrapFlag) != 0;
}

uint64_t* RegisterOf(Thread* thread, int number) {
  if (number == kR10) return &thread->block->guest_r10;
  if (number == kR11) return &thread->block->guest_r11;
  return &thread->registers[number];
}

// rdgsbase, wrgsbase: of the GS that the guest has in name.
bool ExecuteGsBase(Thread* thread, const Code& code) {
  const uint8_t modrm = code.opcode[2];
  const int which = modrm >> 3 & 7;
  if (!code.repeat || code.opcode[0] != 0x0f || code.opcode[1] != 0xae || modrm < 0xc0 ||
      (which != 1 && which != 3)) {
    return false;
  }
  uint64_t* reg = RegisterOf(thread, (modrm & 7) | (code.rex & 1) << 3);
  uint64_t* base = &thread->block->gs_base;
  const uint64_t mask = (code.rex & 8) != 0 ? ~uint64_t{0} : 0xffffffff;
  if (which == 1) {
    *reg = *base & mask;
  } else {
    *base = *reg & mask;
  }
  thread->pc += code.prefixes + 3;
  RecordStep(thread);
  ++thread->count;
  return true;
}

uint64_t* StepWords(const Thread& thread) {
  return PointerTo<uint64_t>(GapOf(thread.number) + kStepStateOffset);
}

// pushf has pushed the flag that it was executed with.
void HideTrapFlag(const Thread& thread) {
  Code code;
  ReadCode(thread.step_pc, &code);
  if (code.opcode[0] != 0x9c) return;
  auto* second = PointerTo<uint8_t>(thread.registers[kRsp] + 1);
  uint8_t byte;
  if (!CopyGuest(&byte, second, 1)) return;
  byte &= 0xfe;
  CopyGuest(second, &byte, 1);
}

}  // namespace

[[noreturn]] void ExecuteNatively(Thread* thread) {
  Code code;
  ReadCode(thread->pc, &code);
  if (IsSystemCall(code)) {
    thread->block->exit_size = static_cast<uint16_t>(code.prefixes + 2);
    HandleCall(thread);
    Continue(thread);
  }
  if (ExecuteGsBase(thread, code)) Continue(thread);
  if (IsRecorded(*thread) && IsOutOfReach(code)) LeaveAll(thread, HS_END_INSTRUCTION);
  if (IsRecorded(*thread) && SetsTrapFlag(*thread, code)) LeaveAll(thread, HS_END_TRAP_FLAG);
  LeaveNatively(thread, /*step=*/true);
}

bool IsWithinReach(const Thread& thread) {
  Code code;
  ReadCode(thread.pc, &code);
  return !IsSystemCall(code) && !IsOutOfReach(code);
}

bool IsToldByInstruction(const Thread& thread) {
  constexpr uint64_t kGeneralProtection = 13;
  const uint64_t address = thread.fault.fault_address;
  if (!IsRecorded(thread) || !IsWithinReach(thread)) return false;
  if (IsStoredInPart(thread, address)) return !IsDirect(thread);
  return thread.fault_signal == SIGSEGV &&
         (thread.fault.trap == kGeneralProtection || !InWindows(address, address));
}

bool HasGsPrefix(uint64_t pc) {
  Code code;
  ReadCode(pc, &code);
  return code.gs;
}

void BeginStep(Thread* thread) {
  if (!IsRecorded(*thread)) return;
  GuestState state;
  TakeState(thread, &state);
  uint64_t* const words = StepWords(*thread);
  for (uint64_t i = ToAllStateWords(state, words); i < HS_ALL_STATE_WORDS; ++i) words[i] = 0;
}

void FinishStep(Thread* thread) {
  HideTrapFlag(*thread);
  Call(SYS_arch_prctl, ARCH_GET_FS, AddressOf(&thread->block->fs_base));
  RecordStep(thread, StepWords(*thread));
  ++thread->count;
  // A debugger sees at once what has been stored.
  const bool saved = IsRecorded(*thread) && IsExtendedSave(thread->step_pc);
  // Its operand may be smaller than what the processor could store.
  if (!saved || !TakeRead(thread, thread->block->exit_address, Boot().xsave_bytes)) {
    TakeUnknownOutputs(thread);
  }
}

}  // namespace hindsight::agent
