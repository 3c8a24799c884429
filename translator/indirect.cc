#include "translator/indirect.h"

#include <cstddef>

#include "isa/registers.h"
#include "translator/thread_block.h"

namespace hindsight {

HostAddress EmitTableEntry(int pc, int number, Assembler* code) {
  static_assert(HS_TABLE_ENTRIES == 0x10000 && sizeof(HsTableEntry) == 16);
  static_assert(offsetof(HsTableEntry, pc) == 0);
  code->Operation({.bytes = {0x0f, 0xb7}}, number, pc);  // movzwl %pc,%number
  code->Lea(number, {.base = number, .index = number});
  return {
      .index = number, .scale = 8, .displacement = HS_TABLE_OFFSET, .segment = SegmentBase::kGs};
}

HostAddress HostOfEntry(HostAddress entry) {
  entry.displacement += offsetof(HsTableEntry, host);
  return entry;
}

void EmitRestoreFlags(Assembler* code) {
  code->LoadBytes(4, kRax, Field(HS_BLOCK_FIELD(flags_aside)));
  code->Bytes({0x04, 0x7f, 0x9e});  // add $0x7f,%al, which sets OF if al is 1; sahf
}

HostAddress ReturnTarget(bool direct) {
  constexpr int64_t kWordBytes = sizeof(uint64_t);
  return {.base = kRsp,
          .displacement = -kWordBytes,
          .segment = direct ? SegmentBase::kNone : SegmentBase::kGs};
}

void EmitReturn(Assembler* code) {
  code->Bytes({0x41, 0x81, 0xe3});  // and $imm32,%r11d
  code->Word32(HS_PLACES - 1);
  constexpr HostAddress kWord = {
      .index = kR11, .scale = 8, .displacement = HS_PLACES_OFFSET, .segment = SegmentBase::kGs};
  code->Operation({.bytes = {0xff}}, 4, kWord);  // jmp *gs:HS_PLACES_OFFSET(,%r11,8)
}

}  // namespace hindsight
