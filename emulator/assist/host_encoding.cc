#include "emulator/assist/host_encoding.h"

#include <Zydis/Zydis.h>

#include "isa/decoder.h"

namespace hindsight {
namespace {

// What a prefix of the host's instruction may say beyond its opcode.
constexpr ZydisInstructionAttributes kPrefixes = ZYDIS_ATTRIB_HAS_LOCK;
constexpr ZydisInstructionAttributes kForbidden = (ZYDIS_ENCODABLE_PREFIXES & ~kPrefixes) |
                                                  ZYDIS_ATTRIB_HAS_SEGMENT |
                                                  ZYDIS_ATTRIB_HAS_ADDRESSSIZE;

bool IsGeneral(ZydisRegister name) {
  switch (ZydisRegisterGetClass(name)) {
    case ZYDIS_REGCLASS_GPR8:
    case ZYDIS_REGCLASS_GPR16:
    case ZYDIS_REGCLASS_GPR32:
    case ZYDIS_REGCLASS_GPR64:
      return true;
    default:
      return false;
  }
}

ZydisRegister Wide(int number) {
  return ZydisRegisterEncode(ZYDIS_REGCLASS_GPR64, static_cast<ZyanU8>(number));
}

// A part of `whole` (64 bits) as wide as `like`.
ZydisRegister PartOf(ZydisRegister whole, ZydisRegister like) {
  const ZyanI16 id = ZydisRegisterGetId(whole);
  // The bytes have numbers of their own: ah to bh are between bl and spl.
  constexpr ZyanI16 kFirstNewByte = 4, kHighBytes = 4;
  const ZydisRegisterClass kind = ZydisRegisterGetClass(like);
  const bool shifted = kind == ZYDIS_REGCLASS_GPR8 && id >= kFirstNewByte;
  return ZydisRegisterEncode(kind, static_cast<ZyanU8>(shifted ? id + kHighBytes : id));
}

// The register by which the host names what the guest names `name`.
ZydisRegister HostRegister(const HostPlan& plan, ZydisRegister name) {
  if (!IsGeneral(name)) return name;
  const ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, name);
  if (whole != ZYDIS_REGISTER_RSP) return name;
  if (plan.rsp_stand_in == HostPlan::kNoStandIn) return ZYDIS_REGISTER_NONE;
  return PartOf(Wide(plan.rsp_stand_in), name);
}

ZydisEncodableEncoding EncodingOf(const ZydisDecodedInstruction& instruction) {
  switch (instruction.encoding) {
    case ZYDIS_INSTRUCTION_ENCODING_VEX:
      return ZYDIS_ENCODABLE_ENCODING_VEX;
    case ZYDIS_INSTRUCTION_ENCODING_EVEX:
      return ZYDIS_ENCODABLE_ENCODING_EVEX;
    default:
      return ZYDIS_ENCODABLE_ENCODING_LEGACY;
  }
}

bool MakeRequest(const HostPlan& plan, ZydisEncoderRequest* request) {
  const ZydisDecodedInstruction& instruction = plan.instruction;
  if (!ZYAN_SUCCESS(ZydisEncoderDecodedInstructionToEncoderRequest(
          &instruction, plan.operands, instruction.operand_count_visible, request))) {
    return false;
  }
  request->allowed_encodings = EncodingOf(instruction);
  request->prefixes = instruction.attributes & kPrefixes;
  request->address_size_hint = ZYDIS_ADDRESS_SIZE_HINT_NONE;
  for (int i = 0; i < request->operand_count; ++i) {
    ZydisEncoderOperand& operand = request->operands[i];
    if (operand.type == ZYDIS_OPERAND_TYPE_MEMORY) {
      operand.mem.base = Wide(plan.memory_register);
      operand.mem.index = ZYDIS_REGISTER_NONE;
      operand.mem.scale = 0;
      operand.mem.displacement = 0;
    } else if (operand.type == ZYDIS_OPERAND_TYPE_REGISTER) {
      operand.reg.value = HostRegister(plan, operand.reg.value);
    }
  }
  return true;
}

// What the two say beyond their operands.
bool HasSameForm(const ZydisDecodedInstruction& wanted, const ZydisDecodedInstruction& made) {
  return made.mnemonic == wanted.mnemonic && made.encoding == wanted.encoding &&
         made.operand_count_visible == wanted.operand_count_visible &&
         made.operand_count == wanted.operand_count && made.address_width == 64 &&
         (made.attributes & kForbidden) == 0 &&
         (made.attributes & kPrefixes) == (wanted.attributes & kPrefixes) &&
         made.avx.mask.mode == wanted.avx.mask.mode && made.avx.mask.reg == wanted.avx.mask.reg &&
         made.avx.broadcast.mode == wanted.avx.broadcast.mode &&
         made.avx.rounding.mode == wanted.avx.rounding.mode &&
         made.avx.has_sae == wanted.avx.has_sae;
}

bool IsStubMemory(const HostPlan& plan, const ZydisDecodedOperand& operand) {
  const ZydisRegister segment = operand.mem.segment;
  return operand.mem.type == ZYDIS_MEMOP_TYPE_MEM &&
         operand.mem.base == Wide(plan.memory_register) &&
         operand.mem.index == ZYDIS_REGISTER_NONE && operand.mem.disp.value == 0 &&
         segment != ZYDIS_REGISTER_FS && segment != ZYDIS_REGISTER_GS;
}

// In as many bits as the destination has: the two may have it sign-extended from different widths.
bool IsSameImmediate(uint64_t wanted, uint64_t made, int bits) {
  const uint64_t mask = bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  return ((wanted ^ made) & mask) == 0;
}

bool IsSameOperand(const HostPlan& plan, int index, const ZydisDecodedOperand& made) {
  const ZydisDecodedOperand& wanted = plan.operands[index];
  if (made.type != wanted.type || made.actions != wanted.actions) return false;
  switch (wanted.type) {
    case ZYDIS_OPERAND_TYPE_REGISTER:
      return made.reg.value == HostRegister(plan, wanted.reg.value);
    case ZYDIS_OPERAND_TYPE_MEMORY:
      return index == plan.memory_operand && made.size == wanted.size && IsStubMemory(plan, made);
    case ZYDIS_OPERAND_TYPE_IMMEDIATE:
      return IsSameImmediate(wanted.imm.value.u, made.imm.value.u, plan.operands[0].size);
    default:
      return false;
  }
}

}  // namespace

std::optional<std::vector<uint8_t>> EncodeForHost(const HostPlan& plan) {
  ZydisEncoderRequest request = {};
  if (!MakeRequest(plan, &request)) return std::nullopt;
  uint8_t bytes[ZYDIS_MAX_INSTRUCTION_LENGTH];
  ZyanUSize length = sizeof(bytes);
  if (!ZYAN_SUCCESS(ZydisEncoderEncodeInstruction(&request, bytes, &length))) return std::nullopt;
  std::vector<uint8_t> code(bytes, bytes + length);
  if (!IsAsPlanned(plan, code)) return std::nullopt;
  return code;
}

bool IsAsPlanned(const HostPlan& plan, absl::Span<const uint8_t> code) {
  ZydisDecodedInstruction made;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT] = {};
  if (!Decode(code, &made, operands) || made.length != code.size()) return false;
  if (!HasSameForm(plan.instruction, made)) return false;
  for (int i = 0; i < made.operand_count; ++i) {
    if (!IsSameOperand(plan, i, operands[i])) return false;
  }
  return true;
}

}  // namespace hindsight
