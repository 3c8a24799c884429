// The address of a memory operand, decoded once and computed often.

#ifndef HINDSIGHT_ISA_OPERAND_ADDRESS_H_
#define HINDSIGHT_ISA_OPERAND_ADDRESS_H_

#include <Zydis/Zydis.h>

#include <cstdint>

#include "isa/registers.h"

namespace hindsight {

// Whether bits 48..63 repeat bit 47.
inline bool IsCanonical(uint64_t address) {
  const auto high = static_cast<int64_t>(address) >> 47;
  return high == 0 || high == -1;
}

class OperandAddress {
 public:
  OperandAddress() = default;
  // A vector register as index is passed to Compute.
  OperandAddress(const ZydisDecodedInstruction& instruction, const ZydisDecodedOperand& operand);

  // `offset`: from the vector register, if any.
  uint64_t Compute(const RegisterFile& registers, uint64_t offset = 0) const {
    uint64_t address = displacement_ + offset;
    if (base_ >= 0) address += registers.gpr[base_];
    if (index_ >= 0) address += registers.gpr[index_] * scale_;
    if (from_rip_) address += registers.rip;
    if (narrow_) address &= 0xffff'ffff;
    if (segment_ == Segment::kNone) [[likely]]
      return address;
    return address + (segment_ == Segment::kFs ? registers.fs_base : registers.gs_base);
  }

 private:
  enum class Segment : uint8_t { kNone, kFs, kGs };

  uint64_t displacement_ = 0;  // includes the length of an instruction that is relative to rip
  int8_t base_ = -1, index_ = -1;
  uint8_t scale_ = 0;
  bool from_rip_ = false;
  bool narrow_ = false;  // 32-bit addresses
  Segment segment_ = Segment::kNone;
};

}  // namespace hindsight

#endif  // HINDSIGHT_ISA_OPERAND_ADDRESS_H_
