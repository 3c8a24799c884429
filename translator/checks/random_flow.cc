#include "translator/checks/random_flow.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "translator/checks/host_choices.h"

namespace hindsight {
namespace {

constexpr int kBlocks = 12;
// A block has at most six instructions, and its end.
constexpr uint64_t kRoomPerBlock = 160;

// Registers that hold addresses, and are not written: rsp, rsi, rdi, r10, and r9, a small index.
constexpr uint16_t kKept = 1 << kRsp | 1 << kRsi | 1 << kRdi | 1 << kR10 | 1 << kR9;
constexpr int64_t kReach = 0x300;

bool IsAimed(const GuestInstruction& instruction, const ZydisDecodedOperand& operand) {
  const ZydisDecodedOperandMem& mem = operand.mem;
  if (operand.visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN) return true;
  if (mem.type == ZYDIS_MEMOP_TYPE_VSIB || mem.segment == ZYDIS_REGISTER_FS ||
      mem.segment == ZYDIS_REGISTER_GS || instruction.decoded.address_width != 64) {
    return false;
  }
  if (mem.base == ZYDIS_REGISTER_RIP || operand.encoding != ZYDIS_OPERAND_ENCODING_MODRM_RM) {
    return true;
  }
  const int base = GeneralRegister(mem.base), index = GeneralRegister(mem.index);
  const bool based = base == kRsi || base == kRdi || base == kR10 || base == kRsp;
  return based && (index < 0 || index == kR9) && mem.disp.value < kReach &&
         mem.disp.value > -kReach;
}

bool IsRepeated(const GuestInstruction& instruction) {
  constexpr ZydisInstructionAttributes kRepeats =
      ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE;
  return (instruction.decoded.attributes & kRepeats) != 0;
}

bool IsOpen(const GuestInstruction& instruction) {
  return LeavesOverflowOpen(instruction) || LeavesTopOpen(instruction) ||
         (IsRepeated(instruction) && LeavesUpperHalvesOpen(instruction));
}

// Whether single-stepping shows in what it computes, or the registers kept are lost.
bool IsUsable(FlowUse use, const GuestInstruction& instruction) {
  for (const ZydisDecodedOperand& operand : instruction.Operands()) {
    if (operand.type == ZYDIS_OPERAND_TYPE_MEMORY && !IsAimed(instruction, operand)) return false;
    if (operand.type != ZYDIS_OPERAND_TYPE_REGISTER) continue;
    const int number = GeneralRegister(operand.reg.value);
    const bool moves = operand.visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN;
    if (number >= 0 && !moves && (operand.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) != 0 &&
        (kKept >> number & 1) != 0) {
      return false;
    }
  }
  switch (instruction.decoded.mnemonic) {
    case ZYDIS_MNEMONIC_ENTER:
    case ZYDIS_MNEMONIC_LEAVE:
    case ZYDIS_MNEMONIC_POPF:
    case ZYDIS_MNEMONIC_POPFQ:
    case ZYDIS_MNEMONIC_XLAT:
    case ZYDIS_MNEMONIC_STD:
      // Whether one that faults has reset x87's TOP depends on what came before.
    case ZYDIS_MNEMONIC_MASKMOVQ:
    // Could unmask exceptions; which of two kinds that are pending comes first is not fixed.
    case ZYDIS_MNEMONIC_FLDCW:
    case ZYDIS_MNEMONIC_FLDENV:
    case ZYDIS_MNEMONIC_FRSTOR:
    case ZYDIS_MNEMONIC_FXRSTOR:
    case ZYDIS_MNEMONIC_FXRSTOR64:
    case ZYDIS_MNEMONIC_LDMXCSR:
    case ZYDIS_MNEMONIC_VLDMXCSR:
      return false;
    case ZYDIS_MNEMONIC_PUSHF:
    case ZYDIS_MNEMONIC_PUSHFQ:
    case ZYDIS_MNEMONIC_FNSAVE:
    case ZYDIS_MNEMONIC_FNSTENV:
    case ZYDIS_MNEMONIC_FXSAVE:
    case ZYDIS_MNEMONIC_FXSAVE64:
      return use == FlowUse::kReplayed;
    default:
      if (use == FlowUse::kStepped && IsOpen(instruction)) return false;
      return !IsBitTest(instruction) && instruction.decoded.meta.category != ZYDIS_CATEGORY_XSAVE &&
             instruction.decoded.meta.category != ZYDIS_CATEGORY_XSAVEOPT;
  }
}

}  // namespace

RandomFlow::RandomFlow(FlowUse use, uint64_t pc, uint64_t room, const OperandMemory& memory,
                       std::mt19937_64* random)
    : use_(use), pc_(pc), memory_(memory), random_(random) {
  CHECK(room > kBlocks * kRoomPerBlock);
  for (int i = 0; i < kBlocks; ++i) blocks_.push_back(pc + i * kRoomPerBlock + Below(30));
  for (uint64_t block : blocks_) {
    Pad(block);
    for (uint64_t left = Below(7); left > 0; --left) Body();
    End();
    CHECK(here() <= block + kRoomPerBlock);
  }
}

// Few instructions.
void RandomFlow::Pad(uint64_t until) {
  static constexpr uint64_t kLongest = 8;
  while (here() + kLongest <= until) Bytes({0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0});
  while (here() < until) Bytes({0x90});
}

uint64_t RandomFlow::AnyBlock() {
  if (!inner_.empty() && Below(4) == 0) return inner_[Below(inner_.size())];
  return blocks_[Below(blocks_.size())];
}

void RandomFlow::Aim(const OperandMemory& memory, std::mt19937_64* random,
                     RegisterFile* registers) {
  const uint64_t room = memory.end - memory.begin;
  for (int number : {kRsi, kRdi, kR10, kRsp}) {
    registers->gpr[number] = memory.begin + room / 4 + (*random)() % (room / 2) / 8 * 8;
  }
  registers->gpr[kR9] = (*random)() % 64;
  registers->gpr[kRcx] = (*random)() % 4;
  registers->rflags &= ~uint64_t{0x400};
}

void RandomFlow::Bytes(std::initializer_list<uint64_t> bytes) {
  for (uint64_t byte : bytes) code_.push_back(static_cast<uint8_t>(byte));
}

void RandomFlow::Rel32(uint64_t target) {
  const auto distance = static_cast<uint32_t>(target - (here() + 4));
  Bytes({distance & 0xff, distance >> 8 & 0xff, distance >> 16 & 0xff, distance >> 24});
}

void RandomFlow::Body() {
  static constexpr FormKind kKinds[] = {FormKind::kLegacy, FormKind::kLegacy, FormKind::kLegacy,
                                        FormKind::kX87,    FormKind::kVex,    FormKind::kEvex};
  while (true) {
    const FormKind kind = Below(8) == 0 ? FormKind::kLocked : kKinds[Below(Below(8) == 0 ? 6 : 1)];
    const GuestInstruction instruction = RandomForm(kind, here(), memory_, random_);
    if (!IsUsable(use_, instruction)) continue;
    inner_.push_back(here());
    const absl::Span<const uint8_t> bytes = instruction.Bytes();
    if (IsRepeated(instruction)) Bytes({0xb9, Below(24), 0, 0, 0});  // mov $n,%ecx
    code_.insert(code_.end(), bytes.begin(), bytes.end());
    return;
  }
}

void RandomFlow::Conditional() {
  if (Below(3) == 0) {  // short, over a jump
    Bytes({0x70 | Below(16), 5});
  } else {
    Bytes({0x0f, 0x80 | Below(16)});
    Rel32(AnyBlock());
    if (Below(3) == 0) return;  // falls through to the next block, over nops
  }
  Bytes({0xe9});
  Rel32(AnyBlock());
  Bytes({0xe9});
  Rel32(AnyBlock());
}

void RandomFlow::Loop() {
  if (Below(4) == 0) Bytes({0x67});
  Bytes({0xe0 | Below(4), 5});
  Bytes({0xe9});
  Rel32(AnyBlock());
  Bytes({0xe9});
  Rel32(AnyBlock());
}

void RandomFlow::Indirect() {
  const uint64_t operation = Below(2) != 0 ? 0xd0 : 0xe0;  // call or jmp
  switch (Below(3)) {
    case 0: {  // through a register that may be changed
      static constexpr int kRegisters[] = {kRax, kRdx, kR8, kR11, kR11, kR12, kR15};
      const int number = kRegisters[Below(7)];
      Bytes({0x48u | (number >= 8) << 2, 0x8d, 5u | (number & 7u) << 3});  // lea
      Rel32(AnyBlock());
      if (number >= 8) Bytes({0x41});
      return Bytes({0xff, operation | (number & 7u)});
    }
    case 1:  // relative to rip
      Bytes({0xff, operation == 0xd0 ? 0x15u : 0x25u});
      return Rel32(memory_.begin + Below(64) * 8);
    default:  // through memory at rsi, rdi, r10
      switch (Below(3)) {
        case 0:
          return Bytes({0xff, (operation & 0x3f) | 7});
        case 1:
          return Bytes({0x41, 0xff, (operation & 0x3f) | 2});
        default:
          return Bytes({0x42, 0xff, (operation & 0x3f) | 4, 0xce});  // [rsi + r9 * 8]
      }
  }
}

void RandomFlow::End() {
  switch (Below(16)) {
    case 0:
      Bytes({0xc3});
      return;
    case 1:
      if (Below(2) != 0) return Bytes({0xf3, 0xc3});
      return Bytes({0xc2, 8 * Below(4), 0});
    case 2:
    case 3:
      Bytes({0xe8});  // call
      return Rel32(AnyBlock());
    case 4:
    case 5:
      return Indirect();
    case 6:
    case 7:
      return Loop();
    case 8:
      Bytes({0xe9});
      return Rel32(AnyBlock());
    case 9:
      if (Below(4) != 0) return Conditional();
      if (Below(2) != 0) return Bytes({0x0f, 0x05});  // syscall
      return Bytes({0x0f, 0xa2});                     // cpuid
    default:
      return Conditional();
  }
}

}  // namespace hindsight
