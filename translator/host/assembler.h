// Writes host instructions, those that translated code consists of besides the guest's own.
//
// None of them changes the flags unless its name says so. Its methods are the instructions: hence
// so many. One thread at a time.

#ifndef HINDSIGHT_TRANSLATOR_HOST_ASSEMBLER_H_
#define HINDSIGHT_TRANSLATOR_HOST_ASSEMBLER_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "absl/types/span.h"

namespace hindsight {

enum class SegmentBase : uint8_t { kNone, kFs, kGs };

// A memory operand in terms of host registers.
struct HostAddress {
  int base = -1;   // number of a general register; -1: none
  int index = -1;  // the same; with `vector_index`, of a vector register
  int scale = 1;   // 1, 2, 4, 8
  // Added; with `from_rip` the address itself, which the code reaches relative to its place.
  int64_t displacement = 0;
  bool from_rip = false;
  bool vector_index = false;
  bool narrow = false;  // computed in 32 bits (prefix 67)
  // With kGs, HS_GS_SHIFT is added to the displacement where it is encoded.
  SegmentBase segment = SegmentBase::kNone;
};

// How an operand is encoded: ModRM (without the register field), SIB, displacement, and the bits
// that REX, VEX or EVEX add to the registers' numbers.
struct EncodedAddress {
  uint8_t modrm = 0;
  bool has_sib = false;
  uint8_t sib = 0;
  int displacement_bytes = 0;  // 0, 1, 4
  int32_t displacement = 0;
  bool x = false, b = false, v2 = false;  // v2: bit 4 of a vector register as index
};

// `short_displacement`: whether one byte may be used (not in EVEX, where it is scaled).
EncodedAddress EncodeAddress(const HostAddress& address, bool short_displacement);

// A place that is jumped to before or after it is bound. Every label that is used must be bound.
struct Label {
  int32_t offset = -1;
  std::vector<uint32_t> rel32;  // offsets of displacements to be set
  std::vector<uint32_t> rel8;
};

struct OpcodeBytes {
  OpcodeBytes(std::initializer_list<uint8_t> bytes) : count(bytes.size()) {
    std::copy(bytes.begin(), bytes.end(), at.begin());
  }
  std::array<uint8_t, 3> at = {};
  size_t count;
};

// An opcode of the legacy maps.
struct Opcode {
  OpcodeBytes bytes;           // with 0f, 0f 38
  bool wide = false;           // REX.W
  uint8_t prefix = 0;          // 66, f2, f3
  bool byte_register = false;  // the register operand is spl, sil, ..., never ah
};

enum Condition : uint8_t { kZero = 4, kNotZero = 5, kLess = 12 };

class Assembler {
 public:
  // The code will lie at `host_address`.
  explicit Assembler(uint64_t host_address) : host_address_(host_address) {}

  uint32_t offset() const { return static_cast<uint32_t>(code_.size()); }
  uint64_t here() const { return host_address_ + code_.size(); }
  std::vector<uint8_t> Take() { return std::move(code_); }
  // What depends on the place: see TranslatedBlock.
  std::vector<uint32_t> TakeOutward() { return std::move(outward_); }
  std::vector<uint32_t> TakeOwn() { return std::move(own_); }

  // Whether `target` can be reached relative to rip from anywhere in a block.
  bool Reaches(uint64_t target) const;

  void Byte(uint64_t byte) { code_.push_back(static_cast<uint8_t>(byte)); }
  void Bytes(absl::Span<const uint8_t> bytes);
  void Word32(uint64_t value) { Little(value, 4); }
  void Word64(uint64_t value) { Little(value, 8); }
  void Align(uint32_t alignment, uint8_t filler);
  // Prefixes that mean nothing to the direct branch that follows, until its displacement, which is
  // `distance` bytes behind its beginning, is aligned. NOPs would be instructions of their own.
  void PadBranch(uint32_t distance, uint32_t alignment);

  // ModRM with memory. `tail`: bytes of the instruction that follow (immediates).
  void Operation(const Opcode& opcode, int reg, const HostAddress& address, int tail = 0);
  void Operation(const Opcode& opcode, int reg, int rm);
  // What follows the opcode: ModRM, SIB, displacement.
  void Operand(int reg, const EncodedAddress& encoded, const HostAddress& address, int tail);

  void Move(int to, int from);
  void MoveConstant(int to, uint64_t value);
  void Lea(int to, const HostAddress& address);
  // The same of a place in this code.
  void LeaOwn(int to, uint64_t host_address);
  void LeaLabel(int to, Label* label);
  // The 8 bytes at `offset` will be the address of a place in this code.
  void NoteOwnAddress(uint32_t offset) { own_.push_back(offset); }
  void Load(int to, const HostAddress& address);
  void Store(const HostAddress& address, int from);
  // 1, 2, 4 or 8 bytes, extended with zeros.
  void LoadBytes(int bytes, int to, const HostAddress& address);
  void StoreBytes(int bytes, const HostAddress& address, int from);
  // 4 or 8 bytes, extended with the sign.
  void StoreConstant(int bytes, const HostAddress& address, int32_t value);
  // Sets flags.
  void CompareBytes(int bytes, int with, const HostAddress& address);
  // gs:[offset], a field of the thread block.
  void LoadField(int to, int offset);
  void StoreField(int offset, int from);

  void Jump(Label* label);
  void JumpIf(Condition condition, Label* label);  // rel32
  void JumpIfRcxZero(Label* label);                // rel8
  void JumpTo(uint64_t host_address);              // rel32, out of the block
  void JumpToIf(Condition condition, uint64_t host_address);
  void JumpToR11();
  void JumpToField(int offset);  // to the address in gs:[offset]
  void Bind(Label* label);

 private:
  void Little(uint64_t value, int bytes);
  void Rel32(Label* label);
  void OutwardRel32(uint64_t target);

  uint64_t host_address_;
  std::vector<uint8_t> code_;
  std::vector<uint32_t> outward_, own_;
};

// gs:[offset]
inline HostAddress Field(int offset) {
  return {.displacement = offset, .segment = SegmentBase::kGs};
}

}  // namespace hindsight

#endif  // HINDSIGHT_TRANSLATOR_HOST_ASSEMBLER_H_
