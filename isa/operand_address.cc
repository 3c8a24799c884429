#include "isa/operand_address.h"

namespace hindsight {
namespace {

int8_t GprNumber(ZydisRegister name) {
  return static_cast<int8_t>(
      ZydisRegisterGetId(ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, name)));
}

bool IsGeneral(ZydisRegister name) {
  const ZydisRegisterClass kind = ZydisRegisterGetClass(name);
  return kind == ZYDIS_REGCLASS_GPR64 || kind == ZYDIS_REGCLASS_GPR32;
}

}  // namespace

OperandAddress::OperandAddress(const ZydisDecodedInstruction& instruction,
                               const ZydisDecodedOperand& operand) {
  displacement_ = static_cast<uint64_t>(operand.mem.disp.value);
  const ZydisRegister base = operand.mem.base;
  if (base == ZYDIS_REGISTER_RIP || base == ZYDIS_REGISTER_EIP) {
    from_rip_ = true;
    displacement_ += instruction.length;
  } else if (IsGeneral(base)) {
    base_ = GprNumber(base);
  }
  if (IsGeneral(operand.mem.index)) {
    index_ = GprNumber(operand.mem.index);
    scale_ = operand.mem.scale;
  }
  narrow_ = instruction.address_width == 32;
  if (operand.mem.segment == ZYDIS_REGISTER_FS) segment_ = Segment::kFs;
  if (operand.mem.segment == ZYDIS_REGISTER_GS) segment_ = Segment::kGs;
}

}  // namespace hindsight
