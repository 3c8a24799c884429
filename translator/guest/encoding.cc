#include "translator/guest/encoding.h"

#include <algorithm>

#include "base/check.h"

namespace hindsight {
namespace {

bool IsRex(uint8_t byte) { return (byte & 0xf0) == 0x40; }

// Segment prefixes; those of CS, DS, ES and SS do nothing.
bool IsSegment(uint8_t byte) {
  return byte == 0x26 || byte == 0x2e || byte == 0x36 || byte == 0x3e || byte == 0x64 ||
         byte == 0x65;
}

}  // namespace

Encoding::Encoding(const GuestInstruction& instruction) : kind_(instruction.decoded.encoding) {
  TakePrefixes(instruction);
  if (kind_ != ZYDIS_INSTRUCTION_ENCODING_LEGACY && kind_ != ZYDIS_INSTRUCTION_ENCODING_3DNOW) {
    TakeVectorPrefix(instruction);
  }
  TakeOperands(instruction);
}

int Encoding::FieldOf(const ZydisDecodedOperand& operand) {
  if (operand.type != ZYDIS_OPERAND_TYPE_REGISTER) return -1;
  switch (operand.encoding) {
    case ZYDIS_OPERAND_ENCODING_MODRM_REG:
      return kModRmReg;
    case ZYDIS_OPERAND_ENCODING_MODRM_RM:
      return kModRmRm;
    case ZYDIS_OPERAND_ENCODING_NDSNDD:
      return kVvvv;
    case ZYDIS_OPERAND_ENCODING_OPCODE:
      return kOpcode;
    default:
      return -1;
  }
}

void Encoding::TakePrefixes(const GuestInstruction& instruction) {
  const ZydisDecodedInstruction& decoded = instruction.decoded;
  for (int i = 0; i < decoded.raw.prefix_count; ++i) {
    const uint8_t byte = instruction.bytes[i];
    if (IsRex(byte) || IsSegment(byte)) continue;
    // Of several the last counts.
    DropPrefix(byte);
    prefixes_.Add(byte);
  }
  if ((decoded.attributes & ZYDIS_ATTRIB_HAS_SEGMENT_FS) != 0) segment_ = SegmentBase::kFs;
  if ((decoded.attributes & ZYDIS_ATTRIB_HAS_SEGMENT_GS) != 0) segment_ = SegmentBase::kGs;
  if (kind_ == ZYDIS_INSTRUCTION_ENCODING_LEGACY || kind_ == ZYDIS_INSTRUCTION_ENCODING_3DNOW) {
    extension_.present = (decoded.attributes & ZYDIS_ATTRIB_HAS_REX) != 0;
    if (!extension_.present) return;
    extension_.w = decoded.raw.rex.W;
    extension_.r = decoded.raw.rex.R;
    extension_.x = decoded.raw.rex.X;
    extension_.b = decoded.raw.rex.B;
  }
}

void Encoding::TakeVectorPrefix(const GuestInstruction& instruction) {
  const uint8_t* at = instruction.bytes + instruction.decoded.raw.prefix_count;
  const bool two = kind_ == ZYDIS_INSTRUCTION_ENCODING_VEX && at[0] == 0xc5;
  payload_ = {at[1], at[2], at[3]};
  if (two)
    payload_ = {static_cast<uint8_t>((at[1] & 0x80) | 0x61), static_cast<uint8_t>(at[1] & 0x7f), 0};
  extension_.r = (payload_[0] & 0x80) == 0;
  extension_.x = (payload_[0] & 0x40) == 0;
  extension_.b = (payload_[0] & 0x20) == 0;
  extension_.w = (payload_[1] & 0x80) != 0;
  extension_.vvvv = (~payload_[1] >> 3) & 0xf;
  if (kind_ == ZYDIS_INSTRUCTION_ENCODING_EVEX) {
    extension_.r2 = (payload_[0] & 0x10) == 0;
    extension_.v2 = (payload_[2] & 0x08) == 0;
  }
}

void Encoding::TakeOperands(const GuestInstruction& instruction) {
  const ZydisDecodedInstruction& decoded = instruction.decoded;
  has_modrm_ = (decoded.attributes & ZYDIS_ATTRIB_HAS_MODRM) != 0;
  int first = decoded.raw.prefix_count;
  if (kind_ == ZYDIS_INSTRUCTION_ENCODING_VEX || kind_ == ZYDIS_INSTRUCTION_ENCODING_XOP) {
    first += instruction.bytes[first] == 0xc5 ? 2 : 3;
  } else if (kind_ == ZYDIS_INSTRUCTION_ENCODING_EVEX) {
    first += 4;
  }
  int end = decoded.length;  // of the opcode
  int tail = decoded.length;
  if (has_modrm_) {
    end = decoded.raw.modrm.offset;
    tail = end + 1;
    modrm_ = instruction.bytes[end];
    if (decoded.raw.sib.offset != 0) ++tail;
    tail += decoded.raw.disp.size / 8;
  } else if (decoded.raw.disp.size != 0) {
    tail = end = decoded.raw.disp.offset;  // an absolute address counts as a tail
  } else if (decoded.raw.imm[0].size != 0) {
    tail = end = decoded.raw.imm[0].offset;
  }
  for (int i = first; i < end; ++i) opcode_.Add(instruction.bytes[i]);
  for (int i = tail; i < decoded.length; ++i) tail_.Add(instruction.bytes[i]);
  const ZydisDecodedOperand* memory = EncodedMemory(instruction);
  if (memory == nullptr) return;
  if (!has_modrm_) UseModRm();
  has_memory_ = true;
  address_ = AddressOf(instruction, *memory);
  segment_ = address_.segment;
}

// mov between al, ax, eax, rax and an absolute address becomes the same with ModRM.
void Encoding::UseModRm() {
  static constexpr uint8_t kOpcodes[] = {0x8a, 0x8b, 0x88, 0x89};  // for a0 to a3
  CHECK(opcode_.count == 1 && opcode_.bytes[0] >= 0xa0 && opcode_.bytes[0] <= 0xa3);
  opcode_.bytes[0] = kOpcodes[opcode_.bytes[0] - 0xa0];
  tail_.count = 0;
  has_modrm_ = true;
  extension_.r = extension_.x = extension_.b = false;  // had no meaning
}

void Encoding::SetRegister(Field field, int number) {
  const bool high = number >= 8;
  switch (field) {
    case kModRmReg:
      modrm_ = static_cast<uint8_t>((modrm_ & 0xc7) | (number & 7) << 3);
      extension_.r = high;
      break;
    case kModRmRm:
      modrm_ = static_cast<uint8_t>((modrm_ & 0xf8) | (number & 7));
      extension_.b = high;
      break;
    case kVvvv:
      extension_.vvvv = static_cast<uint8_t>(number);
      break;
    case kOpcode:
      opcode_.bytes[opcode_.count - 1] =
          static_cast<uint8_t>((opcode_.bytes[opcode_.count - 1] & 0xf8) | (number & 7));
      extension_.b = high;
      break;
  }
}

void Encoding::SetMemory(const HostAddress& address) {
  CHECK(has_memory_);
  address_ = address;
  segment_ = address.segment;
}

void Encoding::SetMemoryToRegister(int number) {
  CHECK(has_memory_);
  has_memory_ = false;
  segment_ = SegmentBase::kNone;
  DropPrefix(0x67);
  modrm_ = static_cast<uint8_t>(0xc0 | (modrm_ & 0x38) | (number & 7));
  extension_.b = (number & 8) != 0;
  extension_.x = (number & 16) != 0;
  extension_.present |= number >= 4;  // of a byte, spl to dil instead of ah to bh
}

void Encoding::DropPrefix(uint8_t prefix) {
  auto* end = std::remove(prefixes_.bytes.data(), prefixes_.bytes.data() + prefixes_.count, prefix);
  prefixes_.count = static_cast<int>(end - prefixes_.bytes.data());
}

bool Encoding::HasPrefix(uint8_t prefix) const {
  const absl::Span<const uint8_t> all = prefixes_.Span();
  return std::find(all.begin(), all.end(), prefix) != all.end();
}

bool Encoding::Write(Assembler* assembler) const {
  if (Length() > ZYDIS_MAX_INSTRUCTION_LENGTH) return false;
  WritePrefixes(assembler);
  WriteOpcode(assembler);
  if (has_memory_) {
    assembler->Operand(modrm_ >> 3 & 7,
                       EncodeAddress(address_, kind_ != ZYDIS_INSTRUCTION_ENCODING_EVEX), address_,
                       tail_.count);
  } else if (has_modrm_) {
    assembler->Byte(modrm_);
  }
  assembler->Bytes(tail_.Span());
  return true;
}

int Encoding::Length() const {
  // Written once more, to nowhere in particular, without what depends on the place.
  Encoding copy = *this;
  copy.address_.from_rip = false;
  int length = 0;
  if (has_memory_ && address_.from_rip) {
    copy.address_ = {};  // an absolute address: as long, but for its SIB
    copy.address_.segment = address_.segment;
    length = -1;
  }
  Assembler scratch(0);
  copy.WritePrefixes(&scratch);
  copy.WriteOpcode(&scratch);
  if (has_memory_) {
    scratch.Operand(0, EncodeAddress(copy.address_, kind_ != ZYDIS_INSTRUCTION_ENCODING_EVEX),
                    copy.address_, 0);
  } else if (has_modrm_) {
    ++length;
  }
  return length + static_cast<int>(scratch.offset()) + tail_.count;
}

void Encoding::WritePrefixes(Assembler* assembler) const {
  if (segment_ != SegmentBase::kNone) assembler->Byte(segment_ == SegmentBase::kFs ? 0x64 : 0x65);
  for (uint8_t prefix : prefixes_.Span()) {
    if (prefix != 0x67 || !has_memory_) assembler->Byte(prefix);
  }
  if (has_memory_ && address_.narrow) assembler->Byte(0x67);
}

void Encoding::WriteOpcode(Assembler* assembler) const {
  Encoding copy = *this;
  if (has_memory_) {
    const EncodedAddress encoded = EncodeAddress(address_, true);
    copy.extension_.x = encoded.x;
    copy.extension_.b = encoded.b;
    if (address_.vector_index) copy.extension_.v2 = encoded.v2;
  }
  switch (kind_) {
    case ZYDIS_INSTRUCTION_ENCODING_VEX:
    case ZYDIS_INSTRUCTION_ENCODING_XOP:
      copy.WriteVex(assembler);
      break;
    case ZYDIS_INSTRUCTION_ENCODING_EVEX:
      copy.WriteEvex(assembler);
      break;
    default: {
      const Extension& bits = copy.extension_;
      const int rex = bits.w << 3 | bits.r << 2 | bits.x << 1 | bits.b;
      if (bits.present || rex != 0) assembler->Byte(0x40 | rex);
      break;
    }
  }
  assembler->Bytes(opcode_.Span());
}

void Encoding::WriteVex(Assembler* assembler) const {
  const int third = (~extension_.vvvv & 0xf) << 3;
  const int map = payload_[0] & 0x1f;
  const bool vex = kind_ == ZYDIS_INSTRUCTION_ENCODING_VEX;
  if (vex && map == 1 && !extension_.x && !extension_.b && !extension_.w) {
    assembler->Byte(0xc5);
    assembler->Byte(!extension_.r << 7 | third | (payload_[1] & 7));
    return;
  }
  assembler->Byte(vex ? 0xc4 : 0x8f);
  assembler->Byte(!extension_.r << 7 | !extension_.x << 6 | !extension_.b << 5 | map);
  assembler->Byte(extension_.w << 7 | third | (payload_[1] & 7));
}

void Encoding::WriteEvex(Assembler* assembler) const {
  assembler->Byte(0x62);
  assembler->Byte(!extension_.r << 7 | !extension_.x << 6 | !extension_.b << 5 |
                  !extension_.r2 << 4 | (payload_[0] & 0x0f));
  assembler->Byte(extension_.w << 7 | (~extension_.vvvv & 0xf) << 3 | (payload_[1] & 7));
  assembler->Byte((payload_[2] & 0xf7) | !extension_.v2 << 3);
}

}  // namespace hindsight
