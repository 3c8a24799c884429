#include "translator/record.h"

#include <optional>

#include "isa/registers.h"
#include "translator/encoding.h"
#include "translator/plain.h"
#include "translator/substitution.h"

namespace hindsight {
namespace {

constexpr int kPushBytes = 8;

HostAddress InView(HostAddress address) {
  address.segment = SegmentBase::kGs;
  return address;
}

HostAddress Plus(HostAddress address, int offset) {
  address.displacement += offset;
  return address;
}

int ChunkOf(int bytes) { return bytes >= 8 ? 8 : bytes >= 4 ? 4 : bytes >= 2 ? 2 : 1; }

// mov, zero-extended.
void LoadChunk(int to, const HostAddress& address, int bytes, Assembler* code) {
  if (bytes == 8) {
    code->Load(to, address);
  } else if (bytes == 4) {
    code->Operation({.bytes = {0x8b}}, to, address);
  } else if (bytes == 2) {
    code->Operation({.bytes = {0x0f, 0xb7}}, to, address);
  } else {
    code->Operation({.bytes = {0x0f, 0xb6}}, to, address);
  }
}

void StoreChunk(const HostAddress& address, int from, int bytes, Assembler* code) {
  if (bytes == 8) {
    code->Store(address, from);
  } else if (bytes == 4) {
    code->Operation({.bytes = {0x89}}, from, address);
  } else if (bytes == 2) {
    code->Operation({.bytes = {0x89}, .prefix = 0x66}, from, address);
  } else {
    code->Operation({.bytes = {0x88}, .byte_register = true}, from, address);
  }
}

void CompareChunk(int with, const HostAddress& address, int bytes, Assembler* code) {
  if (bytes == 8) {
    code->Operation({.bytes = {0x3b}, .wide = true}, with, address);
  } else if (bytes == 4) {
    code->Operation({.bytes = {0x3b}}, with, address);
  } else if (bytes == 2) {
    code->Operation({.bytes = {0x3b}, .prefix = 0x66}, with, address);
  } else {
    code->Operation({.bytes = {0x3a}, .byte_register = true}, with, address);
  }
}

// rcx is spilled, and not part of the address.
void CheckChunkByRcx(int scratch, const HostAddress& address, int bytes, BlockWriter* writer) {
  Assembler* code = writer->code();
  LoadChunk(scratch, address, bytes, code);
  writer->MarkFault();
  LoadChunk(kRcx, InView(address), bytes, code);
  code->Bytes({0x48, 0xf7, 0xd1});  // not %rcx
  code->Lea(kRcx, {.base = kRcx, .index = scratch, .displacement = 1});
  Label same;
  code->JumpIfRcxZero(&same);
  code->Jump(writer->Miss(address, static_cast<uint16_t>(bytes)));
  code->Bind(&same);
}

void CheckChunk(int scratch, const HostAddress& address, int bytes, BlockWriter* writer) {
  Assembler* code = writer->code();
  LoadChunk(scratch, address, bytes, code);
  writer->MarkFault();
  CompareChunk(scratch, InView(address), bytes, code);
  code->JumpIf(kNotZero, writer->Miss(address, static_cast<uint16_t>(bytes)));
}

struct Access {
  bool read = false, write = false;
  int bytes = 0;
};

std::optional<Access> AccessOf(const GuestInstruction& in) {
  const ZydisDecodedOperand* memory = EncodedMemory(in);
  for (const ZydisDecodedOperand& operand : in.Operands()) {
    if (operand.type != ZYDIS_OPERAND_TYPE_MEMORY || &operand == memory) continue;
    return std::nullopt;  // hidden ones
  }
  if (memory == nullptr || memory->mem.type != ZYDIS_MEMOP_TYPE_MEM) return Access{};
  switch (in.decoded.mnemonic) {
    case ZYDIS_MNEMONIC_NOP:
    case ZYDIS_MNEMONIC_PREFETCH:
    case ZYDIS_MNEMONIC_PREFETCHNTA:
    case ZYDIS_MNEMONIC_PREFETCHT0:
    case ZYDIS_MNEMONIC_PREFETCHT1:
    case ZYDIS_MNEMONIC_PREFETCHT2:
    case ZYDIS_MNEMONIC_PREFETCHW:
      return Access{};
    case ZYDIS_MNEMONIC_BT:
    case ZYDIS_MNEMONIC_BTS:
    case ZYDIS_MNEMONIC_BTR:
    case ZYDIS_MNEMONIC_BTC:
      if (IsBitTest(in)) return std::nullopt;
      break;
    default:
      break;
  }
  Access access;
  access.read = (memory->actions & ZYDIS_OPERAND_ACTION_MASK_READ) != 0;
  access.write = (memory->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) != 0;
  access.bytes = memory->size / 8;
  const bool known = access.bytes == 1 || access.bytes == 2 || access.bytes == 4 ||
                     access.bytes == 8 || access.bytes == 10 || access.bytes == 16 ||
                     access.bytes == 28 || (access.bytes == 32 && false);
  if (!known || in.decoded.encoding != ZYDIS_INSTRUCTION_ENCODING_LEGACY) return std::nullopt;
  return access;
}

bool AddressUses(const HostAddress& address, int number) {
  return address.base == number || (address.index == number && !address.vector_index);
}

bool WritesAddress(const GuestInstruction& in, const HostAddress& address,
                   const Substitution& substitution) {
  for (const ZydisDecodedOperand& operand : in.Operands()) {
    if (operand.type != ZYDIS_OPERAND_TYPE_REGISTER ||
        (operand.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) == 0) {
      continue;
    }
    const int number = GeneralRegister(operand.reg.value);
    if (number >= 0 && AddressUses(address, substitution.Host(number))) return true;
  }
  return false;
}

void Copy(int scratch, const HostAddress& address, int bytes, BlockWriter* writer) {
  for (int at = 0; at < bytes;) {
    const int chunk = ChunkOf(bytes - at);
    LoadChunk(scratch, InView(Plus(address, at)), chunk, writer->code());
    writer->MarkFault();
    StoreChunk(Plus(address, at), scratch, chunk, writer->code());
    at += chunk;
  }
}

// r11 and what can be spilled for one instruction.
constexpr int kTemporaries = 4;

// At most.
int TemporariesNeeded(const GuestInstruction& in, const Access& access, bool by_rcx) {
  const uint16_t used = UsedRegisters(in);
  const HostAddress address = AddressOf(in, *EncodedMemory(in));
  const bool segment = address.segment != SegmentBase::kNone;
  const bool linear =
      segment || address.narrow || (by_rcx && AddressUses(address, kRcx)) || access.write;
  return by_rcx + (used >> kR10 & 1) + (used >> kR11 & 1) + UsesHighByte(in) + linear + segment + 1;
}

bool WriteWithMemory(const GuestInstruction& in, const Access& access, BlockWriter* writer) {
  Assembler* code = writer->code();
  const bool by_rcx = access.read && writer->place().flags_exact != 0;
  if (TemporariesNeeded(in, access, by_rcx) > kTemporaries) return false;
  Temporaries temporaries(in, writer);
  Substitution substitution(in, writer, &temporaries);
  if (by_rcx) temporaries.Spill(kRcx);
  substitution.LoadRegisters();
  HostAddress address = substitution.Address();
  const bool fs = address.segment == SegmentBase::kFs;
  if (fs || address.narrow || (by_rcx && AddressUses(address, kRcx)) ||
      (access.write && WritesAddress(in, address, substitution))) {
    const int linear = temporaries.TakeSpilled();
    code->Lea(linear, address);
    address = {.base = linear};
    if (fs) {
      const int base = temporaries.Take();
      code->LoadField(base, HS_BLOCK_FIELD(fs_base));
      code->Lea(linear, {.base = linear, .index = base});
    }
  }
  const int scratch = temporaries.Take();
  for (int at = 0; access.read && at < access.bytes;) {
    const int chunk = ChunkOf(access.bytes - at);
    if (by_rcx) {
      CheckChunkByRcx(scratch, Plus(address, at), chunk, writer);
    } else {
      CheckChunk(scratch, Plus(address, at), chunk, writer);
    }
    at += chunk;
  }
  if (by_rcx) code->LoadField(kRcx, BlockWriter::SaveSlot(0));
  Encoding encoding(in);
  substitution.Apply(&encoding);
  encoding.DropPrefix(0xf0);
  encoding.SetMemory(InView(address));
  writer->MarkFault();
  if (!encoding.Write(code)) return false;
  if (by_rcx) code->StoreField(BlockWriter::SaveSlot(0), kRcx);
  if (access.write) Copy(scratch, address, access.bytes, writer);
  substitution.StoreRegisters();
  temporaries.Release();
  return true;
}

bool WritePush(const GuestInstruction& in, BlockWriter* writer) {
  if (in.decoded.operand_width != 64) return false;
  Assembler* code = writer->code();
  const ZydisDecodedOperand& value = in.operands[0];
  if (value.type == ZYDIS_OPERAND_TYPE_IMMEDIATE) {
    code->MoveConstant(kR11, static_cast<uint64_t>(value.imm.value.s));
  } else if (value.type == ZYDIS_OPERAND_TYPE_REGISTER && GeneralRegister(value.reg.value) >= 0) {
    const int number = GeneralRegister(value.reg.value);
    if (number == kR10 || number == kR11) {
      code->LoadField(kR11, number == kR10 ? HS_BLOCK_FIELD(guest_r10) : HS_BLOCK_FIELD(guest_r11));
    } else {
      code->Move(kR11, number);
    }
  } else if (value.type == ZYDIS_OPERAND_TYPE_MEMORY) {
    Temporaries temporaries(in, writer);
    Substitution substitution(in, writer, &temporaries);
    const bool by_rcx = writer->place().flags_exact != 0;
    if (by_rcx) temporaries.Spill(kRcx);
    const int scratch = temporaries.TakeSpilled();
    substitution.LoadRegisters();
    HostAddress address = substitution.Address();
    if (address.segment != SegmentBase::kNone || address.narrow) return false;
    if (by_rcx && AddressUses(address, kRcx)) {
      const int linear = temporaries.TakeSpilled();
      code->Lea(linear, address);
      address = {.base = linear};
    }
    if (by_rcx) {
      CheckChunkByRcx(scratch, address, kPushBytes, writer);
    } else {
      CheckChunk(scratch, address, kPushBytes, writer);
    }
    code->Move(kR11, scratch);
    temporaries.Release();
  } else {
    return false;
  }
  StorePushed(writer);
  writer->MarkFault();
  code->Bytes({0x41, 0x53});  // push %r11
  return true;
}

}  // namespace

void CheckMemory(const HostAddress& address, int bytes, BlockWriter* writer) {
  Assembler* code = writer->code();
  if (writer->place().flags_exact == 0) {
    CheckChunk(kR11, address, bytes, writer);
    return;
  }
  code->StoreField(BlockWriter::SaveSlot(0), kRcx);
  (*writer->saved())[0] = kRcx;
  CheckChunkByRcx(kR11, address, bytes, writer);
  code->LoadField(kRcx, BlockWriter::SaveSlot(0));
  (*writer->saved())[0] = HS_NOT_SAVED;
  writer->MarkFault();
}

void CheckByRcx(const HostAddress& address, int seen, BlockWriter* writer) {
  CheckChunkByRcx(seen, address, kPushBytes, writer);
}

void StorePushed(BlockWriter* writer) {
  writer->code()->Store({.base = kRsp, .displacement = -kPushBytes, .segment = SegmentBase::kGs},
                        kR11);
}

bool WriteRecorded(const GuestInstruction& in, BlockWriter* writer) {
  switch (in.decoded.mnemonic) {
    case ZYDIS_MNEMONIC_PUSH:
      return WritePush(in, writer);
    case ZYDIS_MNEMONIC_POP:
      if (in.decoded.operand_width != 64 || in.operands[0].type != ZYDIS_OPERAND_TYPE_REGISTER) {
        return false;
      }
      CheckMemory({.base = kRsp}, kPushBytes, writer);
      return WritePlain(in, writer);
    case ZYDIS_MNEMONIC_LEAVE:
      CheckMemory({.base = kRbp}, kPushBytes, writer);
      return WritePlain(in, writer);
    default:
      break;
  }
  const std::optional<Access> access = AccessOf(in);
  if (!access.has_value()) return false;
  return access->bytes == 0 ? WritePlain(in, writer) : WriteWithMemory(in, *access, writer);
}

}  // namespace hindsight
