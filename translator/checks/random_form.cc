#include "translator/checks/random_form.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <string>

#include "base/check.h"
#include "isa/operand_address.h"
#include "isa/vector_bytes.h"

namespace hindsight {
namespace {

// Operands keep this distance from the ends of memory, mostly.
constexpr uint64_t kMarginBytes = 0x400;

class FormWriter {
 public:
  FormWriter(FormKind kind, std::mt19937_64* random) : kind_(kind), random_(random) {}

  std::vector<uint8_t> Write() {
    bytes_.clear();
    Prefixes();
    switch (kind_) {
      case FormKind::kLegacy:
        Legacy();
        break;
      case FormKind::kX87:
        if (Below(2) != 0) Add(0x40 | Below(16));
        Add(0xd8 + Below(8));
        break;
      case FormKind::kVex:
        Vex();
        break;
      case FormKind::kEvex:
        Evex();
        break;
      case FormKind::kLocked:
        Locked();
        break;
    }
    ModRm();
    while (bytes_.size() < ZYDIS_MAX_INSTRUCTION_LENGTH) Add(Below(256));
    return bytes_;
  }

 private:
  uint64_t Below(uint64_t limit) { return (*random_)() % limit; }
  bool OneIn(uint64_t count) { return Below(count) == 0; }
  void Add(uint64_t byte) { bytes_.push_back(static_cast<uint8_t>(byte)); }
  // Three bits of a register; 2 and 3 are r10 and r11 with the extension.
  uint64_t Register() {
    return kind_ != FormKind::kLocked && Below(3) == 0 ? 2 + Below(2) : Below(8);
  }

  // In any order; now and then one twice, or a REX that is none because of its place.
  void Prefixes() {
    std::vector<uint8_t> prefixes;
    auto maybe = [&](uint64_t rarity, uint8_t prefix) {
      if (!OneIn(rarity)) return;
      prefixes.push_back(prefix);
      if (OneIn(12)) prefixes.push_back(prefix);
    };
    maybe(6, 0x64);
    maybe(12, 0x65);
    maybe(12, 0x67);
    maybe(16, std::array<uint8_t, 4>{0x2e, 0x36, 0x3e, 0x26}[Below(4)]);
    if (kind_ == FormKind::kLocked) {
      maybe(8, 0x66);
      if (!OneIn(8)) prefixes.push_back(0xf0);
      maybe(10, 0xf2);
    }
    if (kind_ == FormKind::kLegacy || kind_ == FormKind::kX87) {
      maybe(4, 0x66);
      maybe(12, 0xf0);
      maybe(10, 0xf2);
      maybe(10, 0xf3);
    }
    std::shuffle(prefixes.begin(), prefixes.end(), *random_);
    const bool legacy = kind_ == FormKind::kLegacy || kind_ == FormKind::kX87;
    if (legacy && !prefixes.empty() && OneIn(12)) {
      prefixes.insert(prefixes.begin() + Below(prefixes.size()), 0x40 | Below(16));
    }
    bytes_ = prefixes;
  }

  void Legacy() {
    if (!OneIn(4)) Add(0x40 | Below(16));
    const uint64_t map = Below(8);
    if (map >= 3) Add(0x0f);
    if (map == 6) Add(0x38);
    if (map == 7) Add(0x3a);
    Add(Below(256));
  }

  void Locked() {
    if (!OneIn(3)) Add(0x40 | Below(16));
    switch (Below(4)) {
      case 0:  // add ... xor
        Add(Below(7) << 3 | Below(2));
        break;
      case 1:
        Add(std::array<uint8_t, 4>{0x81, 0x83, 0xf7, 0xff}[Below(4)]);
        break;
      case 2:
        Add(0x86 | Below(2));  // xchg
        break;
      default:
        Add(0x0f);
        Add(std::array<uint8_t, 6>{0xb1, 0xc1, 0xb0, 0xc1, 0xb1, 0xc7}[Below(6)]);
        break;
    }
  }

  // The third register is mostly the one that stands for none.
  uint64_t Third() { return OneIn(2) ? 0x78 : (OneIn(3) ? 4 + Below(2) : Below(16)) << 3; }

  void Vex() {
    if (OneIn(3)) {
      Add(0xc5);
      Add(Below(2) << 7 | Third() | Below(8));
    } else {
      Add(0xc4);
      Add(Below(8) << 5 | (1 + Below(3)));
      Add(Below(2) << 7 | Third() | Below(8));
    }
    Add(Below(256));
  }

  void Evex() {
    Add(0x62);
    Add(Below(16) << 4 | (1 + Below(3)));
    Add(Below(2) << 7 | Third() | 4 | Below(4));
    Add(OneIn(2) ? (Below(3) << 5 | 8 | Below(8)) : Below(256));
    Add(Below(256));
  }

  void ModRm() {
    const uint64_t mod = Below(4);
    const uint64_t rm = mod != 3 && OneIn(4) ? 4 : OneIn(6) ? 5 : Register();
    Add(mod << 6 | Register() << 3 | rm);
    if (mod != 3 && rm == 4) {
      Add(Below(4) << 6 | Register() << 3 | (OneIn(5) ? 5 : Register()));
    }
  }

  FormKind kind_;
  std::mt19937_64* random_;
  std::vector<uint8_t> bytes_;
};

// EVEX.X makes a general register number 16 and more. Zydis ignores it; what the processor reads is
// not even the same each time.
bool NamesNoRegister(const GuestInstruction& instruction) {
  if (instruction.decoded.encoding != ZYDIS_INSTRUCTION_ENCODING_EVEX ||
      (instruction.bytes[instruction.decoded.raw.prefix_count + 1] & 0x40) != 0) {
    return false;
  }
  for (const ZydisDecodedOperand& operand : instruction.Operands()) {
    if (operand.type == ZYDIS_OPERAND_TYPE_REGISTER && GeneralRegister(operand.reg.value) >= 0 &&
        operand.encoding == ZYDIS_OPERAND_ENCODING_MODRM_RM) {
      return true;
    }
  }
  return false;
}

uint64_t Place(const OperandMemory& memory, std::mt19937_64* random) {
  const uint64_t room = memory.end - memory.begin;
  switch ((*random)() % 16) {
    case 0:  // over the end
      return memory.end - (*random)() % 64;
    case 1:  // over a page's end
      return memory.begin + room / 2 - (*random)() % 64;
    case 2:
    case 3:
    case 4:
      return memory.begin + kMarginBytes + (*random)() % (room - 2 * kMarginBytes);
    default:
      return memory.begin + kMarginBytes + (*random)() % (room - 2 * kMarginBytes) / 64 * 64;
  }
}

uint64_t SegmentOffset(const ZydisDecodedOperandMem& mem, const OperandMemory& memory) {
  if (mem.segment == ZYDIS_REGISTER_FS) return memory.fs_base;
  if (mem.segment == ZYDIS_REGISTER_GS) return memory.gs_base;
  return 0;
}

// Lets an operand without a register, or relative to rip, name a place in memory.
void AimDisplacement(const OperandMemory& memory, std::mt19937_64* random,
                     GuestInstruction* instruction) {
  const ZydisDecodedOperand* operand = EncodedMemory(*instruction);
  if (operand == nullptr || operand->type != ZYDIS_OPERAND_TYPE_MEMORY) return;
  const auto& disp = instruction->decoded.raw.disp;
  uint64_t target = Place(memory, random) - SegmentOffset(operand->mem, memory);
  if (disp.size == 64) {
    std::memcpy(instruction->bytes + disp.offset, &target, 8);
  } else if (disp.size == 32) {
    const bool from_rip =
        operand->mem.base == ZYDIS_REGISTER_RIP || operand->mem.base == ZYDIS_REGISTER_EIP;
    if (from_rip) target -= instruction->next();
    if (!from_rip && (operand->mem.base != ZYDIS_REGISTER_NONE || (*random)() % 2 == 0)) {
      target = (*random)() % 2 == 0 ? static_cast<uint64_t>(static_cast<int32_t>((*random)()))
                                    : (*random)() % 256;
    }
    std::memcpy(instruction->bytes + disp.offset, &target, 4);
  }
}

void AimVectorIndex(const GuestInstruction& instruction, const ZydisDecodedOperandMem& mem,
                    std::mt19937_64* random, RegisterFile* registers) {
  const std::string name = ZydisMnemonicGetString(instruction.decoded.mnemonic);
  const bool wide =
      name.find("gatherq") != std::string::npos || name.find("scatterq") != std::string::npos;
  const int number = ZydisRegisterGetId(mem.index);
  VectorBytes index = ReadVector(*registers, number);
  for (size_t i = 0; i < sizeof(index); i += wide ? 8 : 4) {
    const int64_t offset = static_cast<int64_t>((*random)() % 48) - 24;
    std::memcpy(index.at + i, &offset, wide ? 8 : 4);
  }
  WriteVector(number, index, registers);
}

void AimOperand(const GuestInstruction& instruction, const ZydisDecodedOperand& operand,
                const OperandMemory& memory, std::mt19937_64* random, RegisterFile* registers) {
  const ZydisDecodedOperandMem& mem = operand.mem;
  const uint64_t displacement =
      mem.disp.has_displacement ? static_cast<uint64_t>(mem.disp.value) : 0;
  const int base = GeneralRegister(mem.base);
  int index = GeneralRegister(mem.index);
  const uint64_t scale = mem.scale == 0 ? 1 : mem.scale;
  uint64_t rest = Place(memory, random) - SegmentOffset(mem, memory) - displacement;
  if (mem.type == ZYDIS_MEMOP_TYPE_VSIB) AimVectorIndex(instruction, mem, random, registers);
  if (base >= 0 && base == index) {
    registers->gpr[base] = rest / (scale + 1);
  } else if (base >= 0) {
    if (index >= 0) {
      if ((*random)() % 2 == 0) registers->gpr[index] = (*random)() % 4096;
      rest -= registers->gpr[index] * scale;
    }
    registers->gpr[base] = rest;
  } else if (index >= 0) {
    registers->gpr[index] = rest / scale;
  }
}

}  // namespace

GuestInstruction RandomForm(FormKind kind, uint64_t pc, const OperandMemory& memory,
                            std::mt19937_64* random) {
  FormWriter writer(kind, random);
  while (true) {
    const std::vector<uint8_t> bytes = writer.Write();
    GuestInstruction instruction;
    if (!DecodeGuest(pc, bytes, &instruction)) continue;
    if (ControlOf(instruction) != Control::kNone || NamesNoRegister(instruction)) continue;
    AimDisplacement(memory, random, &instruction);
    GuestInstruction aimed;
    CHECK(DecodeGuest(pc, instruction.Bytes(), &aimed));
    return aimed;
  }
}

void AimOperands(const GuestInstruction& instruction, const OperandMemory& memory,
                 std::mt19937_64* random, RegisterFile* registers) {
  const ZydisInstructionAttributes repeats =
      ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE;
  for (const ZydisDecodedOperand& operand : instruction.Operands()) {
    if (operand.type == ZYDIS_OPERAND_TYPE_MEMORY) {
      AimOperand(instruction, operand, memory, random, registers);
    }
  }
  if ((instruction.decoded.attributes & repeats) != 0) registers->gpr[kRcx] = (*random)() % 40;
}

bool StoresPartly(const GuestInstruction& instruction) {
  const std::string name = ZydisMnemonicGetString(instruction.decoded.mnemonic);
  return name.find("maskmov") != std::string::npos || name.find("fxsave") != std::string::npos;
}

namespace {

// How far from the operand's address the word lies in which a register chooses a bit.
uint64_t DistanceToBit(const GuestInstruction& instruction, const RegisterFile& registers) {
  if (!IsBitTest(instruction)) return 0;
  const int bits = instruction.decoded.operand_width, unused = 64 - bits;
  const int number = GeneralRegister(instruction.operands[1].reg.value);
  const auto value = static_cast<int64_t>(registers.gpr[number] << unused) >> unused;
  return static_cast<uint64_t>((value & -int64_t{bits}) >> 3);
}

}  // namespace

bool AimsElsewhere(const GuestInstruction& instruction, const OperandMemory& memory,
                   const RegisterFile& registers) {
  const auto operands = instruction.Operands();
  return std::any_of(operands.begin(), operands.end(), [&](const ZydisDecodedOperand& operand) {
    if (operand.type != ZYDIS_OPERAND_TYPE_MEMORY || operand.mem.type != ZYDIS_MEMOP_TYPE_MEM) {
      return false;
    }
    const uint64_t address = OperandAddress(instruction.decoded, operand).Compute(registers) +
                             DistanceToBit(instruction, registers);
    return address < memory.begin || address >= memory.end;
  });
}

}  // namespace hindsight
