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
  code->Bytes({0x40, 0x80, 0xe4, 0xf8});  // and $-8,%spl
}

void EmitPrepareReturn(Assembler* code) {
  code->Lea(kR11, {.base = kRsp, .displacement = -kBelowReturn});
}

void EmitAfterReturn(Assembler* code) {
  code->Lea(kRsp, {.base = kR11, .displacement = kBelowReturn});
}

HostAddress ReturnTarget() {
  constexpr int64_t kWordBytes = sizeof(uint64_t);
  return {.base = kRsp, .displacement = -kWordBytes, .segment = SegmentBase::kGs};
}

void EmitReturn(Assembler* code) {
  EmitPrepareReturn(code);
  code->LoadField(kRsp, HS_BLOCK_FIELD(return_stack));
  code->Byte(0xc3);
}

}  // namespace hindsight
