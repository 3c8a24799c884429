#include "translator/indirect.h"

#include <cstddef>

#include "isa/registers.h"
#include "translator/thread_block.h"

namespace hindsight {

HostAddress EmitTableEntry(int pc, int number, int table, Assembler* code) {
  static_assert(HS_TABLE_ENTRIES == 0x10000 && sizeof(HsTableEntry) == 16);
  static_assert(offsetof(HsTableEntry, pc) == 0);
  code->Operation({.bytes = {0x0f, 0xb7}}, number, pc);  // movzwl %pc,%number
  code->Lea(number, {.base = number, .index = number});
  return {.index = number, .scale = 8, .displacement = table, .segment = SegmentBase::kGs};
}

HostAddress HostOfEntry(HostAddress entry) {
  entry.displacement += offsetof(HsTableEntry, host);
  return entry;
}

void EmitRestoreFlags(Assembler* code) {
  code->LoadBytes(4, kRax, Field(HS_BLOCK_FIELD(flags_aside)));
  code->Bytes({0x04, 0x7f, 0x9e});  // add $0x7f,%al, which sets OF if al is 1; sahf
}

void EmitCallStack(Assembler* code) {
  code->LoadField(kRsp, HS_BLOCK_FIELD(call_stack));
  code->Bytes({0x66, 0x44, 0x89, 0xdc});  // mov %r11w,%sp
}

void EmitReturn(Assembler* code) {
  code->Move(kR11, kRsp);
  code->LoadField(kRsp, HS_BLOCK_FIELD(return_stack));
  code->Byte(0xc3);
}

}  // namespace hindsight
