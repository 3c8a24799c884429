#include "translator/checked_access.h"

#include <algorithm>
#include <cstdint>

#include "isa/registers.h"

namespace hindsight {
namespace {

// Length of the next piece of `left` bytes.
int Piece(int left) { return left >= 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1; }

// Without flags: the difference of the two, and jrcxz. rcx is in `slot` meanwhile.
void CompareWithoutFlags(const HostAddress& at, int piece, int data, int slot, Label* miss,
                         BlockWriter* writer) {
  Assembler* code = writer->code();
  Label same;
  code->StoreField(BlockWriter::SaveSlot(slot), kRcx);
  code->LoadBytes(piece, kRcx, InView(at));
  code->Bytes({0x48, 0xf7, 0xd1});  // not %rcx
  // An index cannot be rsp.
  code->Lea(kRcx, {.base = data, .index = kRcx, .displacement = 1});
  code->JumpIfRcxZero(&same);
  code->Jump(miss);
  code->Bind(&same);
  code->LoadField(kRcx, BlockWriter::SaveSlot(slot));
}

// Leaves for `miss` unless `data` is what the thread block has at `offset`. `slot`: where flags
// must stay, of save[].
void LeaveUnlessEqual(int data, int offset, int slot, Label* miss, BlockWriter* writer) {
  if (slot >= 0) return CompareWithoutFlags(Field(offset), 8, data, slot, miss, writer);
  writer->code()->CompareBytes(8, data, Field(offset));
  writer->code()->JumpIf(kNotZero, miss);
}

constexpr int kSavedMask = HS_BLOCK_FIELD(saved_mask);
constexpr int kZeroWord = HS_BLOCK_FIELD(zero);

// kmovq between a mask register and the thread block, and to a general register.
void MoveMaskField(bool load, int mask, int offset, Assembler* code) {
  code->Bytes({0x65, 0xc4, 0xe1, 0xf8, static_cast<uint8_t>(load ? 0x90 : 0x91)});
  code->Operand(mask, EncodeAddress(Field(offset), true), Field(offset), 0);
}

void MoveMask(int to, int mask, Assembler* code) {
  code->Bytes({0xc4, static_cast<uint8_t>(to >= 8 ? 0x61 : 0xe1), 0xfb, 0x93,
               static_cast<uint8_t>(0xc0 | (to & 7) << 3 | mask)});
}

int VectorLength(const MaskedVector& loaded) {
  return loaded.vector_bits == 512 ? 2 : loaded.vector_bits == 256 ? 1 : 0;
}

// vpmovd2m, vpmovq2m.
void MaskOfVector(int mask, const MaskedVector& loaded, Assembler* code) {
  const int vector = loaded.vector_mask;
  const int wide = loaded.element_bytes == 8;
  code->Byte(0x62);
  code->Byte(0x92 | (vector < 16) << 6 | ((vector & 8) == 0) << 5);
  code->Byte(wide << 7 | 0x7e);
  code->Byte(VectorLength(loaded) << 5 | 0x08);
  code->Byte(0x39);
  code->Byte(0xc0 | mask << 3 | (vector & 7));
}

// vpcmpneqb, -w, -d, -q of the elements that mask register `by` has: those that differ to `mask`.
void CompareMasked(int mask, int by, const MaskedVector& loaded, const HostAddress& address,
                   Assembler* code) {
  constexpr uint8_t kNotEqual = 4;
  const bool wide = loaded.element_bytes == 2 || loaded.element_bytes == 8;
  const EncodedAddress encoded = EncodeAddress(address, false);
  code->Byte(0x65);
  if (address.narrow) code->Byte(0x67);
  code->Byte(0x62);
  code->Byte(0x93 | !encoded.x << 6 | !encoded.b << 5);
  code->Byte(int{wide} << 7 | (~loaded.vector & 0xf) << 3 | 0x05);
  code->Byte(VectorLength(loaded) << 5 | (loaded.vector < 16) << 3 | by);
  code->Byte(loaded.element_bytes <= 2 ? 0x3e : 0x1e);
  code->Operand(mask, encoded, address, 1);
  code->Byte(kNotEqual);
}

// A slot for rcx where flags must stay. False: there is none.
bool TakeSlotForFlags(int data, const BlockWriter& writer, Temporaries* temporaries, int* slot) {
  *slot = -1;
  if (MayChangeFlags(writer)) return true;
  *slot = temporaries->TakeSlot();
  return *slot >= 0 && data != kRcx;
}

// As a check does, piece by piece: a fault is at the first byte that is not there.
void LoadFromView(const HostAddress& address, int bytes, int data, Assembler* code) {
  for (int done = 0; done < bytes; done += Piece(bytes - done)) {
    code->LoadBytes(Piece(bytes - done), data, InView(Further(address, done)));
  }
}

}  // namespace

HostAddress Further(HostAddress address, int64_t offset) {
  address.displacement += offset;
  return address;
}

HostAddress InView(HostAddress address) {
  address.segment = SegmentBase::kGs;
  return address;
}

bool HasRoom(const HostAddress& address, int64_t bytes) {
  return address.from_rip || address.displacement + bytes <= INT32_MAX;
}

bool UsesRegister(const HostAddress& address, int number) {
  return address.base == number || (!address.vector_index && address.index == number);
}

bool MayChangeFlags(const BlockWriter& writer) { return writer.place().flags_exact == 0; }

bool WriteCheck(const HostAddress& address, int bytes, int data, BlockWriter* writer,
                Temporaries* temporaries) {
  if (!writer->trusts_view()) return WriteComparison(address, bytes, data, writer, temporaries);
  if (!HasRoom(address, bytes)) return false;
  LoadFromView(address, bytes, data, writer->code());
  return true;
}

bool WriteComparison(const HostAddress& address, int bytes, int data, BlockWriter* writer,
                     Temporaries* temporaries) {
  if (!HasRoom(address, bytes)) return false;
  Assembler* code = writer->code();
  int slot;
  if (!TakeSlotForFlags(data, *writer, temporaries, &slot)) return false;
  Label* miss = writer->Miss(address, bytes, slot);
  for (int done = 0; done < bytes;) {
    const HostAddress at = Further(address, done);
    const int piece = Piece(bytes - done);
    code->LoadBytes(piece, data, at);
    if (slot < 0) {
      code->CompareBytes(piece, data, InView(at));
      code->JumpIf(kNotZero, miss);
    } else {
      CompareWithoutFlags(at, piece, data, slot, miss, writer);
    }
    done += piece;
  }
  writer->MayFailCheck(miss);
  return true;
}

bool WriteMaskedCheck(const HostAddress& address, const MaskedVector& loaded, int data,
                      BlockWriter* writer, Temporaries* temporaries) {
  int slot;
  if (!TakeSlotForFlags(data, *writer, temporaries, &slot)) return false;
  Assembler* code = writer->code();
  Label* miss = writer->Miss(address, static_cast<uint16_t>(loaded.vector_bits / 8), slot);
  const int differ = loaded.vector_mask < 0 && loaded.mask == 7 ? 6 : 7;
  MoveMaskField(/*load=*/false, differ, kSavedMask, code);
  if (loaded.vector_mask >= 0) MaskOfVector(differ, loaded, code);
  CompareMasked(differ, loaded.vector_mask >= 0 ? differ : loaded.mask, loaded, InView(address),
                code);
  MoveMask(data, differ, code);
  MoveMaskField(/*load=*/true, differ, kSavedMask, code);
  LeaveUnlessEqual(data, kZeroWord, slot, miss, writer);
  writer->MayFailCheck(miss);
  return true;
}

void WriteKeepMask(int mask, BlockWriter* writer) {
  MoveMaskField(/*load=*/false, mask, kSavedMask, writer->code());
}

bool WriteMaskCheck(const HostAddress& address, int bytes, int mask, int data, BlockWriter* writer,
                    Temporaries* temporaries) {
  int slot;
  if (!TakeSlotForFlags(data, *writer, temporaries, &slot)) return false;
  Label* miss = writer->Miss(address, static_cast<uint16_t>(bytes), slot);
  MoveMask(data, mask, writer->code());
  LeaveUnlessEqual(data, kSavedMask, slot, miss, writer);
  writer->MayFailCheck(miss);
  return true;
}

bool WriteCopy(const HostAddress& address, int bytes, int data, BlockWriter* writer) {
  if (!HasRoom(address, bytes)) return false;
  for (int done = 0; done < bytes;) {
    const HostAddress at = Further(address, done);
    const int piece = Piece(bytes - done);
    writer->code()->LoadBytes(piece, data, InView(at));
    writer->code()->StoreBytes(piece, at, data);
    done += piece;
  }
  return true;
}

}  // namespace hindsight
