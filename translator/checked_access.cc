#include "translator/checked_access.h"

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
  if (!HasRoom(address, bytes)) return false;
  if (writer->trusts_view()) {
    LoadFromView(address, bytes, data, writer->code());
    return true;
  }
  Assembler* code = writer->code();
  const bool flags = MayChangeFlags(*writer);
  int slot = -1;
  if (!flags) {
    slot = temporaries->TakeSlot();
    if (slot < 0 || data == kRcx) return false;
  }
  Label* miss = writer->Miss(address, bytes, slot);
  for (int done = 0; done < bytes;) {
    const HostAddress at = Further(address, done);
    const int piece = Piece(bytes - done);
    code->LoadBytes(piece, data, at);
    if (flags) {
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

void WriteVectorCheck(const HostAddress& address, int vector, int data, BlockWriter* writer) {
  Assembler* code = writer->code();
  Label* miss = writer->Miss(address, 16);
  // movq %xmm,%data
  code->Operation({.bytes = {0x0f, 0x7e}, .wide = true, .prefix = 0x66}, vector, data);
  code->CompareBytes(8, data, InView(address));
  code->JumpIf(kNotZero, miss);
  // pextrq $1,%xmm,%data
  code->Byte(0x66);
  code->Byte(0x48 | (vector >= 8) << 2 | (data >= 8));
  code->Bytes({0x0f, 0x3a, 0x16});
  code->Byte(0xc0 | (vector & 7) << 3 | (data & 7));
  code->Byte(1);
  code->CompareBytes(8, data, InView(Further(address, 8)));
  code->JumpIf(kNotZero, miss);
  writer->MayFailCheck(miss);
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
