#include "translator/host/assembler.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "base/check.h"
#include "translator/host/gs_shift.h"

namespace hindsight {
namespace {

constexpr int kRspNumber = 4;
constexpr int kRbpNumber = 5;  // as base it needs a displacement
constexpr int kSibFollows = 4;
constexpr int kNoIndex = 4;
constexpr int kNoBase = 5;
// A block is shorter than this.
constexpr int64_t kSlack = 1 << 20;

bool FitsByte(int64_t value) { return value == static_cast<int8_t>(value); }
bool FitsWord(int64_t value) { return value == static_cast<int32_t>(value); }

int ScaleBits(int scale) { return scale == 8 ? 3 : scale == 4 ? 2 : scale == 2 ? 1 : 0; }

// The opcode for operands of 1, 2, 4 or 8 bytes.
Opcode Sized(int bytes, uint8_t for_byte, uint8_t otherwise) {
  return {.bytes = {bytes == 1 ? for_byte : otherwise},
          .wide = bytes == 8,
          .prefix = static_cast<uint8_t>(bytes == 2 ? 0x66 : 0),
          .byte_register = bytes == 1};
}

// What processors compare must differ.
static_assert((HS_GS_SHIFT & 0x3fc) != 0);

int64_t EncodedDisplacement(const HostAddress& address) {
  return address.displacement + (address.segment == SegmentBase::kGs ? HS_GS_SHIFT : 0);
}

void EncodeBase(const HostAddress& address, bool short_displacement, EncodedAddress* out) {
  int mod = 2;
  out->displacement_bytes = 4;
  if (out->displacement == 0 && (address.base & 7) != kRbpNumber) {
    mod = 0;
    out->displacement_bytes = 0;
  } else if (short_displacement && FitsByte(out->displacement)) {
    mod = 1;
    out->displacement_bytes = 1;
  }
  out->modrm |= mod << 6;
  out->b = address.base >= 8;
}

}  // namespace

EncodedAddress EncodeAddress(const HostAddress& address, bool short_displacement) {
  EncodedAddress out;
  if (address.from_rip) {
    out.modrm = kNoBase;
    out.displacement_bytes = 4;
    return out;
  }
  CHECK(FitsWord(EncodedDisplacement(address)));
  out.displacement = static_cast<int32_t>(EncodedDisplacement(address));
  if (address.base >= 0) {
    EncodeBase(address, short_displacement, &out);
  } else {
    out.displacement_bytes = 4;
  }
  if (address.base >= 0 && address.index < 0 && (address.base & 7) != kRspNumber) {
    out.modrm |= address.base & 7;
    return out;
  }
  out.modrm |= kSibFollows;
  out.has_sib = true;
  const int base = address.base < 0 ? kNoBase : address.base & 7;
  const int index = address.index < 0 ? kNoIndex : address.index & 7;
  out.sib = static_cast<uint8_t>(ScaleBits(address.scale) << 6 | index << 3 | base);
  out.x = address.index >= 0 && (address.index & 8) != 0;
  out.v2 = address.vector_index && (address.index & 16) != 0;
  return out;
}

bool Assembler::Reaches(uint64_t target) const {
  const auto distance = static_cast<int64_t>(target - host_address_);
  return distance > INT32_MIN + kSlack && distance < INT32_MAX - kSlack;
}

void Assembler::Bytes(absl::Span<const uint8_t> bytes) {
  code_.insert(code_.end(), bytes.begin(), bytes.end());
}

void Assembler::Little(uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) Byte(value >> (8 * i));
}

void Assembler::Align(uint32_t alignment, uint8_t filler) {
  while (here() % alignment != 0) Byte(filler);
}

void Assembler::PadBranch(uint32_t distance, uint32_t alignment) {
  static constexpr uint8_t kCsPrefix = 0x2e;
  for (uint64_t missing = -(here() + distance) % alignment; missing != 0; --missing) {
    Byte(kCsPrefix);
  }
}

void Assembler::Operand(int reg, const EncodedAddress& encoded, const HostAddress& address,
                        int tail) {
  Byte(encoded.modrm | (reg & 7) << 3);
  if (encoded.has_sib) Byte(encoded.sib);
  if (address.from_rip) {
    const auto distance = static_cast<int64_t>(static_cast<uint64_t>(EncodedDisplacement(address)) -
                                               (here() + 4 + tail));
    CHECK(FitsWord(distance));
    outward_.push_back(offset());
    Word32(static_cast<uint32_t>(distance));
  } else {
    Little(static_cast<uint32_t>(encoded.displacement), encoded.displacement_bytes);
  }
}

void Assembler::Operation(const Opcode& opcode, int reg, const HostAddress& address, int tail) {
  const EncodedAddress encoded = EncodeAddress(address, true);
  if (address.segment != SegmentBase::kNone) {
    Byte(address.segment == SegmentBase::kFs ? 0x64 : 0x65);
  }
  if (address.narrow) Byte(0x67);
  if (opcode.prefix != 0) Byte(opcode.prefix);
  const int rex = opcode.wide << 3 | (reg >= 8) << 2 | encoded.x << 1 | encoded.b;
  if (rex != 0 || (opcode.byte_register && reg >= kRspNumber)) Byte(0x40 | rex);
  Bytes(absl::MakeConstSpan(opcode.bytes.at.data(), opcode.bytes.count));
  Operand(reg, encoded, address, tail);
}

void Assembler::Operation(const Opcode& opcode, int reg, int rm) {
  if (opcode.prefix != 0) Byte(opcode.prefix);
  const int rex = opcode.wide << 3 | (reg >= 8) << 2 | (rm >= 8);
  if (rex != 0 || (opcode.byte_register && (reg >= kRspNumber || rm >= kRspNumber))) {
    Byte(0x40 | rex);
  }
  Bytes(absl::MakeConstSpan(opcode.bytes.at.data(), opcode.bytes.count));
  Byte(0xc0 | (reg & 7) << 3 | (rm & 7));
}

void Assembler::Move(int to, int from) { Operation({.bytes = {0x8b}, .wide = true}, to, from); }

void Assembler::MoveConstant(int to, uint64_t value) {
  if (value == static_cast<uint32_t>(value)) {
    if (to >= 8) Byte(0x41);
    Byte(0xb8 | (to & 7));
    Word32(value);
  } else if (Reaches(value)) {
    Lea(to, {.displacement = static_cast<int64_t>(value), .from_rip = true});
  } else {
    Byte(to >= 8 ? 0x49 : 0x48);
    Byte(0xb8 | (to & 7));
    Word64(value);
  }
}

void Assembler::Lea(int to, const HostAddress& address) {
  HostAddress plain = address;
  plain.segment = SegmentBase::kNone;
  Operation({.bytes = {0x8d}, .wide = true}, to, plain);
}

void Assembler::LeaOwn(int to, uint64_t host_address) {
  Lea(to, {.displacement = static_cast<int64_t>(host_address), .from_rip = true});
  outward_.pop_back();
}

void Assembler::LeaLabel(int to, Label* label) {
  Lea(to, {.displacement = static_cast<int64_t>(here()), .from_rip = true});
  outward_.pop_back();
  code_.resize(code_.size() - sizeof(int32_t));
  Rel32(label);
}

void Assembler::Load(int to, const HostAddress& address) {
  Operation({.bytes = {0x8b}, .wide = true}, to, address);
}

void Assembler::Store(const HostAddress& address, int from) {
  Operation({.bytes = {0x89}, .wide = true}, from, address);
}

void Assembler::LoadBytes(int bytes, int to, const HostAddress& address) {
  if (bytes == 1) {
    Operation({.bytes = {0x0f, 0xb6}}, to, address);
  } else if (bytes == 2) {
    Operation({.bytes = {0x0f, 0xb7}}, to, address);
  } else {
    Operation({.bytes = {0x8b}, .wide = bytes == 8}, to, address);
  }
}

void Assembler::StoreBytes(int bytes, const HostAddress& address, int from) {
  Operation(Sized(bytes, 0x88, 0x89), from, address);
}

void Assembler::StoreConstant(int bytes, const HostAddress& address, int32_t value) {
  Operation({.bytes = {0xc7}, .wide = bytes == 8}, 0, address, /*tail=*/4);
  Word32(static_cast<uint32_t>(value));
}

void Assembler::CompareBytes(int bytes, int with, const HostAddress& address) {
  Operation(Sized(bytes, 0x3a, 0x3b), with, address);
}

void Assembler::LoadField(int to, int offset) { Load(to, Field(offset)); }
void Assembler::StoreField(int offset, int from) { Store(Field(offset), from); }

void Assembler::Rel32(Label* label) {
  label->rel32.push_back(offset());
  Word32(0);
  if (label->offset >= 0) Bind(label);
}

void Assembler::Jump(Label* label) {
  Byte(0xe9);
  Rel32(label);
}

void Assembler::JumpToR11() { Bytes({0x41, 0xff, 0xe3}); }

void Assembler::JumpToField(int offset) { Operation({.bytes = {0xff}}, 4, Field(offset)); }

void Assembler::JumpIf(Condition condition, Label* label) {
  Byte(0x0f);
  Byte(0x80 | condition);
  Rel32(label);
}

void Assembler::JumpIfRcxZero(Label* label) {
  Byte(0xe3);
  label->rel8.push_back(offset());
  Byte(0);
  if (label->offset >= 0) Bind(label);
}

void Assembler::JumpTo(uint64_t target) {
  Byte(0xe9);
  OutwardRel32(target);
}

void Assembler::JumpToIf(Condition condition, uint64_t target) {
  Bytes({0x0f, static_cast<uint8_t>(0x80 | condition)});
  OutwardRel32(target);
}

void Assembler::OutwardRel32(uint64_t target) {
  const auto distance = static_cast<int64_t>(target - (here() + 4));
  CHECK(FitsWord(distance));
  outward_.push_back(offset());
  Word32(static_cast<uint64_t>(distance));
}

void Assembler::Bind(Label* label) {
  if (label->offset < 0) label->offset = static_cast<int32_t>(offset());
  for (uint32_t at : label->rel32) {
    const int32_t distance = label->offset - static_cast<int32_t>(at + 4);
    std::memcpy(&code_[at], &distance, sizeof(distance));
  }
  for (uint32_t at : label->rel8) {
    const int32_t distance = label->offset - static_cast<int32_t>(at + 1);
    CHECK(FitsByte(distance));
    code_[at] = static_cast<uint8_t>(distance);
  }
  label->rel32.clear();
  label->rel8.clear();
}

}  // namespace hindsight
