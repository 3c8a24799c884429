// An instruction of the guest taken apart, so that its registers and its memory operand can be
// replaced by others. Everything else keeps its meaning byte by byte, so instructions unknown to
// the rest of the translator pass through.
//
// A value. One thread at a time.

#ifndef HINDSIGHT_TRANSLATOR_GUEST_ENCODING_H_
#define HINDSIGHT_TRANSLATOR_GUEST_ENCODING_H_

#include <array>
#include <cstdint>

#include "translator/guest/guest_instruction.h"
#include "translator/host/assembler.h"

namespace hindsight {

class Encoding {
 public:
  // Fields that name a general register.
  enum Field { kModRmReg, kModRmRm, kVvvv, kOpcode };

  explicit Encoding(const GuestInstruction& instruction);

  // The fields of register operands, not of addresses. -1: the operand is in no field.
  static int FieldOf(const ZydisDecodedOperand& operand);

  void SetRegister(Field field, int number);
  // Requires: the instruction has a memory operand in ModRM.
  void SetMemory(const HostAddress& address);
  // Makes the operand that was in memory a register: general, or of the vector registers.
  void SetMemoryToRegister(int number);
  void SetSegment(SegmentBase segment) { segment_ = segment; }
  void DropPrefix(uint8_t prefix);
  // `lock`, for one.
  bool HasPrefix(uint8_t prefix) const;

  // False, with nothing written: it would be longer than an instruction may be.
  bool Write(Assembler* assembler) const;

 private:
  void TakePrefixes(const GuestInstruction& instruction);
  void TakeVectorPrefix(const GuestInstruction& instruction);
  void TakeOperands(const GuestInstruction& instruction);
  void UseModRm();

  void WritePrefixes(Assembler* assembler) const;
  void WriteOpcode(Assembler* assembler) const;
  void WriteVex(Assembler* assembler) const;
  void WriteEvex(Assembler* assembler) const;
  int Length() const;

  struct ByteList {
    std::array<uint8_t, ZYDIS_MAX_INSTRUCTION_LENGTH> bytes;
    int count = 0;
    void Add(uint8_t byte) { bytes[count++] = byte; }
    absl::Span<const uint8_t> Span() const { return {bytes.data(), static_cast<size_t>(count)}; }
  };
  // Bits that extend register numbers, and W; as values, never inverted.
  struct Extension {
    bool present = false;  // REX
    bool w = false, r = false, x = false, b = false, r2 = false, v2 = false;
    uint8_t vvvv = 0;
  };

  ZydisInstructionEncoding kind_;
  ByteList prefixes_;  // legacy ones, without segments and REX
  SegmentBase segment_ = SegmentBase::kNone;
  Extension extension_;
  // VEX, XOP, EVEX: the payload, of which the bits in Extension are replaced; [0]: the map.
  std::array<uint8_t, 3> payload_ = {};
  ByteList opcode_;
  bool has_modrm_ = false, has_memory_ = false;
  uint8_t modrm_ = 0;
  HostAddress address_;
  ByteList tail_;  // immediates
};

}  // namespace hindsight

#endif  // HINDSIGHT_TRANSLATOR_GUEST_ENCODING_H_
