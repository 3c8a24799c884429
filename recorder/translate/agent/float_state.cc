#include "recorder/translate/agent/float_state.h"

#include <stdint.h>

#include "recorder/translate/agent/boot.h"
#include "recorder/translate/agent/calls.h"
#include "recorder/translate/agent/client.h"
#include "recorder/translate/agent/direct_memory.h"
#include "recorder/translate/agent/entry.h"
#include "recorder/translate/agent/recording.h"
#include "recorder/translate/base/system.h"

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

// The components of XSAVE's image that the extended registers are, in the order of the register
// file: their bits, and their bytes there and here.
struct ExtendedPart {
  uint64_t bit, bytes;
};
constexpr ExtendedPart kExtendedParts[] = {{2, 8 * (HS_WORD_ZMM_HIGH - HS_WORD_YMM_HIGH)},
                                           {6, 8 * (HS_WORD_ZMM16 - HS_WORD_ZMM_HIGH)},
                                           {7, 8 * (HS_WORD_K - HS_WORD_ZMM16)},
                                           {5, 8 * (HS_ALL_STATE_WORDS - HS_WORD_K)}};
constexpr uint64_t kExtendedBits = 0xe4;
constexpr uint64_t kExtendedHeaderAt = 512;

struct alignas(64) ExtendedArea {
  uint8_t bytes[kLargestExtendedArea];

  // The components that are not in their initial state.
  uint64_t Present() const { return *reinterpret_cast<const uint64_t*>(bytes + kExtendedHeaderAt); }
};

// False: the processor has none.
bool SaveExtended(ExtendedArea* area) {
  if (Boot().extended_offsets[0] == 0) return false;
  memset(area->bytes + kExtendedHeaderAt, 0, 64);
  asm volatile("xsave64 %0" : "+m"(*area) : "a"(uint32_t{kExtendedBits}), "d"(0));
  return true;
}

void TakeExtended(Thread* thread, GuestState* state) {
  ExtendedArea area;
  if (!SaveExtended(&area)) return;
  const uint64_t present = area.Present() & kExtendedBits;
  if (present != 0) thread->has_extended = 1;
  if (thread->has_extended == 0) return;
  state->has_extended = true;
  auto* to = reinterpret_cast<uint8_t*>(state->extended);
  for (uint64_t i = 0; i < 4; to += kExtendedParts[i++].bytes) {
    const ExtendedPart& part = kExtendedParts[i];
    if ((present >> part.bit & 1) != 0) {
      memcpy(to, area.bytes + Boot().extended_offsets[i], part.bytes);
    } else {
      memset(to, 0, part.bytes);
    }
  }
}

enum class StoreKind { kNone, kEnvironment, kArea };

// An x87 instruction, as far as it matters to the environment. Prefixes are skipped.
struct FloatCode {
  uint8_t bytes[15];
  uint64_t opcode_at;
  bool fs, gs, half;  // prefixes; half: operands of 16 bits

  const uint8_t* opcode() const { return bytes + opcode_at; }
};

bool IsPrefix(uint8_t byte) {
  return byte == 0x26 || byte == 0x2e || byte == 0x36 || byte == 0x3e || (byte & 0xfc) == 0x64 ||
         byte == 0xf2 || byte == 0xf3 || (byte & 0xf0) == 0x40;
}

FloatCode CodeAt(uint64_t pc) {
  constexpr uint64_t kOpcodeBytes = 3;
  FloatCode code = {};
  AgentCopy(code.bytes, PointerTo<const void>(pc), sizeof(code.bytes));
  uint64_t& at = code.opcode_at;
  for (; at + kOpcodeBytes < sizeof(code.bytes) && IsPrefix(code.bytes[at]); ++at) {
    code.fs |= code.bytes[at] == 0x64;
    code.gs |= code.bytes[at] == 0x65;
    code.half |= code.bytes[at] == 0x66;
  }
  return code;
}

// xsave, xsaveopt (clwb with a prefix), xsavec.
bool IsExtendedSave(const FloatCode& code) {
  const uint8_t* opcode = code.opcode();
  const int which = opcode[2] >> 3 & 7;
  if (opcode[0] != 0x0f || opcode[2] >= 0xc0 || code.half) return false;
  return opcode[1] == 0xae ? which == 4 || which == 6 : opcode[1] == 0xc7 && which == 4;
}

// fnstenv, fnsave; fxsave and its successors.
StoreKind StoreAt(uint64_t pc) {
  const FloatCode code = CodeAt(pc);
  const uint8_t* opcode = code.opcode();
  const int which = opcode[1] >> 3 & 7;
  if (opcode[1] < 0xc0 && which == 6 && (opcode[0] == 0xd9 || opcode[0] == 0xdd)) {
    return StoreKind::kEnvironment;
  }
  const bool area = opcode[0] == 0x0f && opcode[1] == 0xae && opcode[2] < 0xc0;
  const bool fxsave = area && (opcode[2] >> 3 & 7) == 0;
  return fxsave || IsExtendedSave(code) ? StoreKind::kArea : StoreKind::kNone;
}

// What tells where the last x87 instruction lies, what it was and where its operand lies. Of the
// latter the processor has the offset: no segment's base is added.
struct Pointers {
  uint64_t code, data;
  uint16_t opcode;
};

// What the processor has, with addresses of at least 32 bits, to the guest's. False: it has it.
bool ToGuest(Thread* thread, Pointers* pointers) {
  // No two arenas agree in the lower half, nor do they lie where programs usually have their code.
  uint64_t host = 0;
  const uint64_t arenas[] = {kLibraryArena, kPieArena};
  for (const uint64_t arena : arenas) {
    const auto offset = static_cast<uint32_t>(pointers->code - arena);
    if (offset < kArenaBytes) host = arena + offset;
  }
  static uint32_t shown[kLastThread + 1];
  const auto code = static_cast<uint32_t>(pointers->code);
  if (host == 0 || code == shown[thread->number]) return false;
  const Answer answer = Ask(thread, RequestKind::kRecover, host);
  if (answer.results[0] == 0) return false;
  // It was the view that it has worked on.
  if (CodeAt(host).gs) pointers->data -= static_cast<uint64_t>(int64_t{HS_GS_SHIFT});
  pointers->code = answer.results[1];
  shown[thread->number] = static_cast<uint32_t>(pointers->code);
  const FloatCode guest = CodeAt(pointers->code);
  const uint8_t* opcode = guest.opcode();
  if ((opcode[0] & 0xf8) == 0xd8) {
    pointers->opcode = static_cast<uint16_t>((opcode[0] & 7) << 8 | opcode[1]);
    if (guest.fs && opcode[1] < 0xc0) pointers->data -= thread->block->fs_base;
  }
  return true;
}

constexpr uint64_t kAreaOpcodeAt = 6, kAreaCodeAt = 8, kAreaDataAt = 16;

void GetArea(const uint8_t* area, Pointers* pointers) {
  memcpy(&pointers->opcode, area + kAreaOpcodeAt, sizeof(pointers->opcode));
  memcpy(&pointers->code, area + kAreaCodeAt, sizeof(pointers->code));
  memcpy(&pointers->data, area + kAreaDataAt, sizeof(pointers->data));
}

void PutArea(const Pointers& pointers, uint8_t* area) {
  memcpy(area + kAreaOpcodeAt, &pointers.opcode, sizeof(pointers.opcode));
  memcpy(area + kAreaCodeAt, &pointers.code, sizeof(pointers.code));
  memcpy(area + kAreaDataAt, &pointers.data, sizeof(pointers.data));
}

struct Environment {
  uint32_t control, status, tags, code;
  uint16_t selector, opcode;
  uint32_t data, data_selector;
};
static_assert(sizeof(Environment) == 28);

}  // namespace

void ShowGuestPointersIn(Thread* thread, uint8_t* area) {
  Pointers pointers;
  GetArea(area, &pointers);
  if (ToGuest(thread, &pointers)) PutArea(pointers, area);
}

void ShowGuestPointers(Thread* thread, GuestState* state) {
  const StoreKind kind = StoreAt(thread->pc);
  if (kind == StoreKind::kNone) return;
  if (kind == StoreKind::kArea) {
    // Some processors have pointers there only while an exception is pending.
    Pointers pointers;
    GetArea(state->fxsave, &pointers);
    if (!ToGuest(thread, &pointers)) return;
    PutArea(pointers, state->fxsave);
    asm volatile("fxrstor64 %0" ::"m"(state->fxsave));
    return;
  }
  // Masks all exceptions, hence loaded again in any case.
  Environment environment;
  asm volatile("fnstenv %0" : "=m"(environment));
  Pointers pointers = {environment.code, environment.data, environment.opcode};
  ToGuest(thread, &pointers);
  environment.code = static_cast<uint32_t>(pointers.code);
  environment.data = static_cast<uint32_t>(pointers.data);
  environment.opcode = pointers.opcode;
  environment.selector = 0;
  asm volatile("fldenv %0" ::"m"(environment));
  thread->block->float_code = environment.code;
  thread->block->float_opcode = uint32_t{environment.opcode} << 16;
  thread->block->float_data = environment.data;
  PutArea(pointers, state->fxsave);
}

void TakeState(Thread* thread, GuestState* state) {
  TakeBaseState(*thread, state);
  TakeExtended(thread, state);
}

void NoteExtendedState(Thread* thread) {
  ExtendedArea area;
  if (thread->has_extended == 0 && SaveExtended(&area) && (area.Present() & kExtendedBits) != 0) {
    thread->has_extended = 1;
  }
}

bool IsExtendedSave(uint64_t pc) { return IsExtendedSave(CodeAt(pc)); }

bool IsStoredInPart(const Thread& thread, uint64_t fault_address) {
  constexpr uint64_t kPage = 4096, kMostBeyond = 9;
  const uint64_t beyond = fault_address % kPage, before = fault_address - beyond - 1;
  if (beyond >= kMostBeyond || !InWindows(before, before)) return false;
  const FloatCode code = CodeAt(thread.pc);
  const uint8_t* opcode = code.opcode();
  const int which = opcode[1] >> 3 & 7;
  return opcode[1] < 0xc0 &&
         ((opcode[0] == 0xdb && which == 7) || (opcode[0] == 0xdf && which == 6));
}

// The vector registers are the guest's all the time.
void TakeBaseState(const Thread& thread, GuestState* state) {
  memcpy(state->gpr, thread.registers, sizeof(state->gpr));
  state->gpr[kR10] = thread.block->guest_r10;
  state->gpr[kR11] = thread.block->guest_r11;
  state->rip = thread.pc;
  state->rflags = thread.flags;
  state->fs_base = thread.block->fs_base;
  state->gs_base = thread.block->gs_base;
  for (uint64_t i = 0; i < 6; ++i) state->selectors[i] = Selector(i);
  asm volatile("fxsave64 %0" : "=m"(state->fxsave));
  state->has_extended = false;
}

namespace {

// Whether 512 bytes can be read there, or also stored to.
bool CanBeUsed(uint64_t address, bool stored) {
  uint8_t bytes[512];
  return CopyGuest(bytes, PointerTo<void>(address), sizeof(bytes)) &&
         (!stored || CopyGuest(PointerTo<void>(address), bytes, sizeof(bytes)));
}

}  // namespace

bool ExecuteFloatState(Thread* thread, uint64_t size) {
  const auto* code = PointerTo<const uint8_t>(thread->pc);
  const bool wide = (code[0] & 0xf8) == 0x48;
  const uint8_t* opcode = (code[0] & 0xf0) == 0x40 ? code + 1 : code;
  if (opcode[0] != 0x0f || opcode[1] != 0xae || (opcode[2] & 0xc0) == 0xc0) return false;
  const int which = opcode[2] >> 3 & 7;
  const uint64_t address = thread->block->exit_address;
  constexpr uint64_t kBytes = 512, kWrittenBytes = 416;
  const bool direct = IsDirect(*thread);
  if (which > 1 || address % 16 != 0) return false;
  if (direct ? !CanBeUsed(address, which == 0) : !TakeRead(thread, address, kBytes)) return false;
  auto* seen = PointerTo<uint8_t>(address + (direct ? 0 : DistanceOf(thread->number)));
  if (which == 0) {
    RecordCorrection(thread);
    if (wide) {
      asm volatile("fxsave64 (%0)" ::"r"(seen) : "memory");
    } else {
      asm volatile("fxsave (%0)" ::"r"(seen) : "memory");
    }
    // Processors differ in it; a replay has the one that all have.
    *reinterpret_cast<uint32_t*>(seen + kMxcsrMaskAt) = kMxcsrMask;
    if (!direct && !CopyGuest(PointerTo<void>(address), seen, kWrittenBytes)) return false;
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
